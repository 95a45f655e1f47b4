// What annotations leave open follows them.
// RUN: cleave-opt %s --split-input-file --propagate-placements | FileCheck %s

// Columns of a weight: of the pass's description.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32> {dist.placement = #R_tp}
// CHECK-SAME: -> (tensor<4x16xf32> {dist.placement = #S1_tp})
// CHECK: aten.mm({{.*}}) {dist.operands = [#R_tp, #S1_tp], dist.results = [#S1_tp]}
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @columns(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {dist.placement = #dist.on<@mesh, tp = S(1)>}) -> tensor<4x16xf32> {
    %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    return %0 : tensor<4x16xf32>
  }
}

// -----

// A pair of linear layers: columns, then rows. One reduction, where the residual is added.
// CHECK-LABEL: func.func @mlp
// CHECK: aten.addmm({{.*}}) {dist.operands = [#S0_tp, #R_tp, #S1_tp], dist.results = [#S1_tp]}
// CHECK: aten.relu({{.*}}) {dist.operands = [#S1_tp], dist.results = [#S1_tp]}
// CHECK: aten.addmm({{.*}}) {dist.operands = [#P_tp, #S1_tp, #S0_tp], dist.results = [#P_tp]}
// CHECK: aten.add({{.*}}) {dist.operands = [#R_tp, #R_tp], dist.results = [#R_tp]}
module {
  dist.mesh @mesh ["tp" = 2]
  func.func @mlp(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {dist.placement = #dist.on<@mesh, tp = S(1)>}, %b: tensor<16xf32>,
                 %v: tensor<16x8xf32> {dist.placement = #dist.on<@mesh, tp = S(0)>}, %c: tensor<8xf32>) -> tensor<4x8xf32> {
    %0 = aten.addmm(%b, %x, %w) : (tensor<16xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = aten.relu(%0) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %2 = aten.addmm(%c, %1, %v) : (tensor<8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %3 = aten.add(%x, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3 : tensor<4x8xf32>
  }
}

// -----

// Data parallel: the gradient of a replicated parameter stays a sum over the axis through all
// microbatches, and is reduced once, in the update.
// CHECK-LABEL: func.func @microbatch
// CHECK-SAME: {dist.placement = #R_dp, train.role = #train.role<parameter "w">}
// CHECK-SAME: {dist.placement = #P_dp, train.role = #train.role<accumulator "w">}
// CHECK-SAME: {dist.placement = #S0_dp, train.role = #train.role<input "x" batch 0>}
// CHECK-SAME: {dist.placement = #P_dp, train.role = #train.role<gradient "w">}
// CHECK: aten.transpose({{.*}}) {dist.operands = [#S0_dp], dist.results = [#S1_dp]}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S1_dp, #S0_dp], dist.results = [#P_dp]}
// CHECK: train.accumulate {{.*}} {dist.operands = [#P_dp, #P_dp], dist.results = [#P_dp]}
// CHECK-LABEL: func.func @update
// CHECK-SAME: {dist.placement = #P_dp, train.role = #train.role<gradient "w">}
// CHECK: train.sgd({{.*}}) {dampening = 0.000000e+00 : f64, dist.operands = [#R_dp, #R_dp, #R_dp, #R_dp], dist.results = [#R_dp]
module {
  dist.mesh @mesh ["dp" = 2]
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
      %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>, dist.placement = #dist.on<@mesh, dp = S(0)>},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>}, tensor<8x8xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %l = aten.sum(%y) : (tensor<4x8xf32>) -> tensor<f32>
    %g = aten.expand(%s, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32>
    %t = aten.transpose(%x, dim0 = 0, dim1 = 1) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %d = aten.mm(%t, %g) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %sum = train.accumulate %d into %a : tensor<8x8xf32>
    return %l, %sum : tensor<f32>, tensor<8x8xf32>
  }
  func.func @update(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %g: tensor<8x8xf32> {train.role = #train.role<gradient "w">},
      %t: tensor<f32> {train.role = #train.role<step>})
      -> (tensor<8x8xf32> {train.role = #train.role<parameter "w">})
      attributes {train.phase = #train.phase<update>} {
    %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
    %w1 = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8x8xf32>
    return %w1 : tensor<8x8xf32>
  }
}
