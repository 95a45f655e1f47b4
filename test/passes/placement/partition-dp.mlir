// RUN: cleave-opt %s --partition | FileCheck %s

// Data parallelism over dp: one all_reduce of the gradient, once a step, and nothing else. Over tp
// everything is replicated: the gradient is whole there, so that it and its parameter are I.

#R = #dist.on<@mesh, dp = R, tp = R>
#P = #dist.on<@mesh, dp = P, tp = R>
#S0 = #dist.on<@mesh, dp = S(0), tp = R>
#S1 = #dist.on<@mesh, dp = S(1), tp = R>

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x8xf32, #R_dp_I_tp> {train.role = #train.role<parameter "w">}
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<8x8xf32, #P_dp_I_tp> {train.role = #train.role<accumulator "w">}
// CHECK-SAME: tensor<2x8xf32, #S0_dp_R_tp>
// CHECK-SAME: tensor<f32, #R_dp_I_tp> {train.role = #train.role<seed>}
// CHECK-SAME: -> (tensor<f32, #P_dp_I_tp> {train.role = #train.role<loss>},
// CHECK-SAME: tensor<8x8xf32, #P_dp_I_tp> {train.role = #train.role<gradient "w">})
// CHECK-NOT: dist.{{all|reduce}}
// CHECK: train.accumulate {{.*}} into %[[A]] : tensor<8x8xf32, #P_dp_I_tp>
// CHECK-NOT: dist.{{all|reduce}}
// CHECK: return
func.func @microbatch(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #R},
    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">, dist.placement = #P},
    %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>, dist.placement = #S0},
    %seed: tensor<f32> {train.role = #train.role<seed>, dist.placement = #R})
    -> (tensor<f32> {train.role = #train.role<loss>, dist.placement = #P},
        tensor<8x8xf32> {train.role = #train.role<gradient "w">, dist.placement = #P})
    attributes {train.phase = #train.phase<microbatch>} {
  %y = aten.mm(%x, %w) {dist.operands = [#S0, #R], dist.results = [#S0]}
      : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %loss = aten.sum(%y) {dist.operands = [#S0], dist.results = [#P]} : (tensor<4x8xf32>) -> tensor<f32>
  %g = aten.expand(%seed, size = [4, 8]) {train.backward, dist.operands = [#R], dist.results = [#R]}
      : (tensor<f32>) -> tensor<4x8xf32>
  %xt = aten.t(%x) {train.backward, dist.operands = [#S0], dist.results = [#S1]}
      : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw = aten.mm(%xt, %g) {train.backward, dist.operands = [#S1, #S0], dist.results = [#P]}
      : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = train.accumulate %dw into %a {dist.operands = [#P, #P], dist.results = [#P]} : tensor<8x8xf32>
  return %loss, %sum : tensor<f32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: tensor<8x8xf32, #R_dp_I_tp> {train.role = #train.role<parameter "w">}
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<8x8xf32, #P_dp_I_tp> {train.role = #train.role<gradient "w">}
// CHECK-SAME: tensor<8x8xf32, #R_dp_I_tp> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">}
// CHECK: dist.all_reduce sum(%[[G]]) over @mesh ["dp"] : tensor<8x8xf32, #P_dp_I_tp> -> tensor<8x8xf32, #R_dp_I_tp>
// CHECK-NOT: dist.all_reduce
// CHECK: return {{.*}} : tensor<8x8xf32, #R_dp_I_tp>, tensor<8x8xf32, #R_dp_I_tp>
func.func @update(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #R},
    %g: tensor<8x8xf32> {train.role = #train.role<gradient "w">, dist.placement = #P},
    %b: tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">, dist.placement = #R},
    %t: tensor<f32> {train.role = #train.role<step>, dist.placement = #R})
    -> (tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #R},
        tensor<8x8xf32> {train.role = #train.role<optimizer_state "w" slot "momentum_buffer">, dist.placement = #R})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>,
      dist.operands = [#R], dist.results = [#R]} : (tensor<f32>) -> tensor<f64>
  %n, %m = train.sgd(%w, %g, %b, %t, %lr) {momentum = 0.9 : f64, dampening = 0.0 : f64, nesterov = false,
      weight_decay = 0.0 : f64, dist.operands = [#R, #R, #R, #R, #R], dist.results = [#R, #R]} : tensor<8x8xf32>
  return %n, %m : tensor<8x8xf32>, tensor<8x8xf32>
}
