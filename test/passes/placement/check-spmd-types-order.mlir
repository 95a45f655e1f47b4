// Functions are checked side by side, and errors come in their order.
// RUN: not cleave-opt %s --check-spmd-types 2>&1 | FileCheck %s
// RUN: not cleave-opt %s --check-spmd-types --mlir-disable-threading 2>&1 | FileCheck %s

#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// CHECK: check-spmd-types-order.mlir:[[#@LINE+4]]:{{.*}} error: 'aten._softmax' op needs dimension 1 of 'self' whole
// CHECK-NEXT: aten._softmax
// CHECK: note: 'self' is argument 0
func.func @first(%x: tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1> {
  %0 = aten._softmax(%x, dim = 1, half_to_float = false) : (tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  return %0 : tensor<4x8xf32, #S1>
}
func.func @right(%x: tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1> {
  return %x : tensor<4x8xf32, #S1>
}
// CHECK: check-spmd-types-order.mlir:[[#@LINE+3]]:{{.*}} error: 'aten._log_softmax' op needs dimension 1 of 'self' whole
// CHECK: note: 'self' is argument 0
func.func @third(%x: tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1> {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) : (tensor<4x8xf32, #S1>) -> tensor<4x8xf32, #S1>
  return %0 : tensor<4x8xf32, #S1>
}
