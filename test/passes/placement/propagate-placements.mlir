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

// -----

// Constraints on the forward's matmuls alone (a batch over dp, columns and then rows over tp) place
// both products of the backward: weights' gradients are P on dp and S on tp, the activations' S and
// then, of the columns, P.
// CHECK-LABEL: func.func @constraints
// CHECK: aten.mm({{.*}}) {dist.operands = [#S0_dp_R_tp, #R_dp_S1_tp], dist.results = [#S0_dp_S1_tp]}
// CHECK: aten.relu({{.*}}) {dist.operands = [#S0_dp_S1_tp], dist.results = [#S0_dp_S1_tp]}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S0_dp_S1_tp, #R_dp_S0_tp], dist.results = [#S0_dp_P_tp]}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S0_dp_R_tp, #R_dp_S1_tp], dist.results = [#S0_dp_S1_tp], test.name = "g_h"}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S1_dp_S0_tp, #S0_dp_R_tp], dist.results = [#P_dp_S0_tp], test.name = "g_w2"}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S0_dp_S1_tp, #R_dp_S0_tp], dist.results = [#S0_dp_P_tp], test.name = "g_x"}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S1_dp_R_tp, #S0_dp_S1_tp], dist.results = [#P_dp_S1_tp], test.name = "g_w1"}
module {
  dist.mesh @mesh ["dp" = 2, "tp" = 2]
  func.func @constraints(%x: tensor<8x8xf32>, %w1: tensor<8x16xf32>, %w2: tensor<16x8xf32>, %g: tensor<8x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %h = aten.mm(%x, %w1) {dist.operands = [#dist.on<@mesh, dp = S(0), tp = R>, #dist.on<@mesh, dp = R, tp = S(1)>],
                           dist.results = [#dist.on<@mesh, dp = S(0), tp = S(1)>]}
        : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %a = aten.relu(%h) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %y = aten.mm(%a, %w2) {dist.operands = [#dist.on<@mesh, dp = S(0), tp = S(1)>, #dist.on<@mesh, dp = R, tp = S(0)>],
                           dist.results = [#dist.on<@mesh, dp = S(0), tp = P>]}
        : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %w2t = aten.t(%w2) : (tensor<16x8xf32>) -> tensor<8x16xf32>
    %gh = aten.mm(%g, %w2t) {test.name = "g_h"} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %at = aten.t(%a) : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %gw2 = aten.mm(%at, %g) {test.name = "g_w2"} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %w1t = aten.t(%w1) : (tensor<8x16xf32>) -> tensor<16x8xf32>
    %gx = aten.mm(%gh, %w1t) {test.name = "g_x"} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %xt = aten.t(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %gw1 = aten.mm(%xt, %gh) {test.name = "g_w1"} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %u = aten.mm(%gw1, %gw2) : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %v = aten.add(%y, %gx) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %u, %v : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// Hybrid: the batch over both axes, the parameter stored in parts over one. It is gathered for use,
// its gradient is scattered over that axis and stays a sum over the other one until the update.
// CHECK-LABEL: func.func @microbatch
// CHECK-SAME: {dist.placement = #R_dp_S0_fs, train.role = #train.role<parameter "w">}
// CHECK-SAME: {dist.placement = #P_dp_S0_fs, train.role = #train.role<accumulator "w">}
// CHECK-SAME: {dist.placement = #P_dp_S0_fs, train.role = #train.role<gradient "w">}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S0o0_dp_S0o1_fs, #R_dp_R_fs], dist.results = [#S0o0_dp_S0o1_fs]}
// CHECK: aten.mm({{.*}}) {dist.operands = [#S1o0_dp_S1o1_fs, #S0o0_dp_S0o1_fs], dist.results = [#P_dp_P_fs]}
// CHECK: train.accumulate {{.*}} {dist.operands = [#P_dp_S0_fs, #P_dp_S0_fs], dist.results = [#P_dp_S0_fs]}
// CHECK-LABEL: func.func @update
// CHECK: train.sgd({{.*}} dist.operands = [#R_dp_S0_fs, #R_dp_S0_fs, #R_dp_R_fs, #R_dp_R_fs], dist.results = [#R_dp_S0_fs]
module {
  dist.mesh @mesh ["dp" = 2, "fs" = 2]
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">, dist.placement = #dist.on<@mesh, fs = S(0)>},
      %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
      %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>, dist.placement = #dist.on<@mesh, dp = S(0, 0), fs = S(0, 1)>},
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
