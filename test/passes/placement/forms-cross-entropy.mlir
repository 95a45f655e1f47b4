// RUN: cleave-opt %s --split-input-file --partition --check-spmd-types | FileCheck %s

#S0 = #dist.on<@mesh, dp = S(0)>
#P = #dist.on<@mesh, dp = P>
#R = #dist.on<@mesh, dp = R>
dist.mesh @mesh ["dp" = 2]

// The mean of a sharded batch: the number of targets that count is reduced, the loss is not.
// CHECK-LABEL: func @mean_of_a_sharded_batch
// CHECK: %[[SUM:.*]], %[[COUNT:.*]] = aten.nll_loss_forward(%{{.*}}, %{{.*}}, none, reduction = 2, ignore_index = -100)
// CHECK: %[[CUT:.*]] = aten.detach(%[[COUNT]])
// CHECK: %[[WEIGHT:.*]] = dist.all_reduce sum(%[[CUT]]) over @mesh ["dp"] : tensor<f32, #P_dp> -> tensor<f32, #R_dp>
// CHECK: %[[LOSS:.*]] = aten.div(%[[SUM]], %[[WEIGHT]]) : (tensor<f32, #P_dp>, tensor<f32, #R_dp>) -> tensor<f32, #P_dp>
// CHECK-NOT: dist.
// CHECK: return %[[LOSS]], %[[WEIGHT]]
func.func @mean_of_a_sharded_batch(
    %x: tensor<8x16xf32> {dist.placement = #S0}, %t: tensor<8xi64> {dist.placement = #S0})
    -> (tensor<f32> {dist.placement = #P}, tensor<f32> {dist.placement = #R}) {
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100)
      {dist.operands = [#S0, #S0], dist.results = [#P, #R]}
      : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
#P = #dist.on<@mesh, tp = P>
dist.mesh @mesh ["tp" = 4]

// Cross-entropy over sharded classes, forward and backward: the reductions are of a number for each
// row, or of one; the logits stay where they are.
// CHECK-LABEL: func @cross_entropy_of_sharded_classes
// CHECK: dist.all_reduce max({{.*}}) over @mesh ["tp"] : tensor<8x1xf32, #Pmax_tp> -> tensor<8x1xf32, #R_tp>
// CHECK: dist.all_reduce sum({{.*}}) over @mesh ["tp"] : tensor<8x1xf32, #P_tp> -> tensor<8x1xf32, #R_tp>
// CHECK: aten.nll_loss_forward
// CHECK: dist.all_reduce sum({{.*}}) over @mesh ["tp"] : tensor<f32, #P_tp> -> tensor<f32, #R_tp>
// CHECK: aten.nll_loss_backward
// CHECK: dist.all_reduce sum({{.*}}) over @mesh ["tp"] : tensor<8x1xf32, #P_tp> -> tensor<8x1xf32, #R_tp>
// CHECK-NOT: dist.all_reduce
// CHECK-NOT: dist.all_gather
// CHECK: return {{.*}} : tensor<f32, #P_tp>, tensor<8x4xf32, #S1_tp>
func.func @cross_entropy_of_sharded_classes(
    %x: tensor<8x16xf32> {dist.placement = #S1}, %t: tensor<8xi64> {dist.placement = #R},
    %g: tensor<f32> {dist.placement = #R})
    -> (tensor<f32> {dist.placement = #P}, tensor<8x16xf32> {dist.placement = #S1}) {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false)
      {dist.operands = [#S1], dist.results = [#S1]} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1:2 = aten.nll_loss_forward(%0, %t, none, reduction = 1, ignore_index = -100)
      {dist.operands = [#S1, #R], dist.results = [#P, #R]}
      : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  %2 = aten.nll_loss_backward(%g, %0, %t, none, reduction = 1, ignore_index = -100, %1#1)
      {dist.operands = [#R, #S1, #R, #R], dist.results = [#S1]}
      : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
  %3 = aten._log_softmax_backward_data(%2, %0, dim = 1, input_dtype = f32)
      {dist.operands = [#S1, #S1], dist.results = [#S1]}
      : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1#0, %3 : tensor<f32>, tensor<8x16xf32>
}
