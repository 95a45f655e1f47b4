// A gradient is gathered by the stage whose products take it, though a view is in between: its shard crosses.

// RUN: cleave-opt %s --autodiff --outline-stages --check-spmd-types | FileCheck %s

// CHECK: func.func @backward_1(
// CHECK-NOT: dist.all_gather
// CHECK: func.func @backward_0(
// CHECK: %[[G:[a-z0-9]+]]: tensor<1x2x4xf32, #{{.*}}> {train.role = #train.role<crossing_gradient
// CHECK-NOT: crossing_gradient
// CHECK: dist.all_gather(%[[G]]) dim 1 over @mesh ["tp"]
// CHECK: return
#I = #dist.on<@mesh, tp = I>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
module @mlp {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %a: tensor<4x2xf32, #S1> {train.role = #train.role<parameter "a">},
      %b: tensor<2x4xf32, #S0> {train.role = #train.role<parameter "b">},
      %x: tensor<4x4xf32, #R> {train.role = #train.role<input "x">})
      -> (tensor<f32, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.mm(%x, %a) {train.stage = 0 : i64} : (tensor<4x4xf32, #R>, tensor<4x2xf32, #S1>) -> tensor<4x2xf32, #S1>
    %1 = aten.mm(%0, %b) {train.stage = 0 : i64} : (tensor<4x2xf32, #S1>, tensor<2x4xf32, #S0>) -> tensor<4x4xf32, #P>
    %2 = aten.view(%1, size = [1, 4, 4]) {train.stage = 0 : i64} : (tensor<4x4xf32, #P>) -> tensor<1x4x4xf32, #P>
    %3 = dist.reduce_scatter sum(%2) dim 1 over @mesh ["tp"] {train.stage = 0 : i64}
        : tensor<1x4x4xf32, #P> -> tensor<1x2x4xf32, #S1>
    %4 = aten.mul(%3, %3) {train.stage = 1 : i64}
        : (tensor<1x2x4xf32, #S1>, tensor<1x2x4xf32, #S1>) -> tensor<1x2x4xf32, #S1>
    %5 = aten.sum(%4) {train.stage = 1 : i64} : (tensor<1x2x4xf32, #S1>) -> tensor<f32, #P>
    %6 = dist.all_reduce sum(%5) over @mesh ["tp"] {train.stage = 1 : i64} : tensor<f32, #P> -> tensor<f32, #I>
    return %6 : tensor<f32, #I>
  }
}
