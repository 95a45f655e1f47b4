// RUN: cleave-opt %s --partition --check-spmd-types | FileCheck %s

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 2]

// Indices of other ranks' rows read row 0, and count for nothing.
// CHECK-LABEL: func @embedding
// CHECK-SAME: (%[[W:.*]]: tensor<8x4xf32, #S0_tp>, %[[I:.*]]: tensor<3xi64, #R_tp>)
// CHECK: %[[RANK:.*]] = dist.axis_index over @mesh ["tp"]
// CHECK: %[[FIRST:.*]] = aten.mul_scalar(%[[RANK]], other = 8)
// CHECK: %[[PLACE:.*]] = aten.sub(%[[I]], %[[FIRST]])
// CHECK: %[[MASK:.*]] = aten.logical_or
// CHECK: %[[SAFE:.*]] = aten.masked_fill_scalar(%[[PLACE]], %[[MASK]], value = 0)
// CHECK: %[[ROWS:.*]] = aten.embedding(%[[W]], %[[SAFE]])
// CHECK: aten.masked_fill_scalar(%[[ROWS]], %{{.*}}, value = 0.0
// CHECK: %[[RESULT:.*]] = dist.reinterpret %{{.*}} -> tensor<3x4xf32, #P_tp>
// CHECK: return %[[RESULT]]
func.func @embedding(%w: tensor<16x4xf32> {dist.placement = #S0},
                     %i: tensor<3xi64> {dist.placement = #R})
    -> (tensor<3x4xf32> {dist.placement = #P}) {
  %0 = aten.embedding(%w, %i) {dist.operands = [#S0, #R], dist.results = [#P]}
      : (tensor<16x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// The gradients of other ranks' rows go to a row more, which the kernel skips as padding.
// CHECK-LABEL: func @embedding_backward
// CHECK: aten.embedding_dense_backward(%{{.*}}, %{{.*}}, num_weights = 9, padding_idx = 8, scale_grad_by_freq = false)
// CHECK: aten.slice(%{{.*}}, dim = 0, start = 0, end = 8)
// CHECK-NOT: dist.all
// CHECK: return {{.*}} : tensor<8x4xf32, #S0_tp>
func.func @embedding_backward(%g: tensor<3x4xf32> {dist.placement = #R},
                              %i: tensor<3xi64> {dist.placement = #R})
    -> (tensor<16x4xf32> {dist.placement = #S0}) {
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = 16, padding_idx = -1, scale_grad_by_freq = false)
      {dist.operands = [#R, #R], dist.results = [#S0]}
      : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}
