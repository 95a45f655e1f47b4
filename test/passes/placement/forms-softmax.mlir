// RUN: cleave-opt %s --split-input-file --partition --check-spmd-types | FileCheck %s

// No result depends on the largest element, so whoever differentiates the form need not know how to
// differentiate a maximum over ranks.

#R = #dist.on<@mesh, tp = R>
#S1 = #dist.on<@mesh, tp = S(1)>
dist.mesh @mesh ["tp" = 2]

// CHECK-LABEL: func @before_gradients
// CHECK: %[[OWN:.*]] = aten.amax(
// CHECK-NEXT: %[[CUT:.*]] = aten.detach(%[[OWN]])
// CHECK-NEXT: dist.all_reduce max(%[[CUT]])
// CHECK: %[[OWN:.*]] = aten.amax(
// CHECK-NEXT: %[[CUT:.*]] = aten.detach(%[[OWN]])
// CHECK-NEXT: dist.all_reduce max(%[[CUT]])
func.func @before_gradients(
    %x: tensor<8x16xf32> {train.role = #train.role<parameter "x">, dist.placement = #S1})
    -> (tensor<8x16xf32> {train.role = #train.role<output "y">, dist.placement = #S1},
        tensor<8xf32> {train.role = #train.role<output "z">, dist.placement = #R})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) {dist.operands = [#S1], dist.results = [#S1]}
      : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = aten.logsumexp(%x, dim = [1]) {dist.operands = [#S1], dist.results = [#R]} : (tensor<8x16xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8x16xf32>, tensor<8xf32>
}

// -----

#S1 = #dist.on<@mesh, tp = S(1)>
dist.mesh @mesh ["tp" = 2]

// Where gradients are there, a detach would mean nothing.
// CHECK-LABEL: func @with_gradients
// CHECK: aten.amax
// CHECK-NEXT: dist.all_reduce max
func.func @with_gradients(
    %x: tensor<8x16xf32> {train.role = #train.role<parameter "x">, dist.placement = #S1})
    -> (tensor<8x16xf32> {train.role = #train.role<gradient "x">, dist.placement = #S1})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) {dist.operands = [#S1], dist.results = [#S1]}
      : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
