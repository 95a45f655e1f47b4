// Numbers that are computed at run time: read from tensors, and as Scalar arguments.
// RUN: cleave-opt %s | FileCheck %s
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --emit-bytecode %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --canonicalize --cse %s | FileCheck %s --check-prefix=FOLDED

// CHECK-LABEL: func.func @numbers(
// CHECK-SAME: %[[W:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>, %[[T:.*]]: tensor<f32>
func.func @numbers(%w: tensor<4xf32>, %g: tensor<4xf32>, %t: tensor<f32>) -> (tensor<4xf32>, tensor<i1>) {
  // CHECK: %[[COUNT:.*]] = aten.item(%[[T]]) : (tensor<f32>) -> f64
  %count = aten.item(%t) : (tensor<f32>) -> f64
  %beta = arith.constant 0.9 : f64
  // CHECK: %[[POWER:.*]] = math.powf
  %power = math.powf %beta, %count : f64
  // CHECK: %[[IS_LARGE:.*]] = arith.cmpf ogt
  %isLarge = arith.cmpf ogt, %power, %beta : f64
  // CHECK: aten.call "aten::add.Tensor" sharded "a, a -> a"(self = %[[W]], other = %[[G]], alpha = %[[POWER]]) : (tensor<4xf32>, tensor<4xf32>, f64) -> tensor<4xf32>
  %new = aten.call "aten::add.Tensor" sharded "a, a -> a"(self = %w, other = %g, alpha = %power)
      : (tensor<4xf32>, tensor<4xf32>, f64) -> tensor<4xf32>
  // CHECK: aten.call "aten::scalar_tensor"(s = %[[IS_LARGE]], dtype = i1) : (i1) -> tensor<i1>
  %chosen = aten.call "aten::scalar_tensor"(s = %isLarge, dtype = i1) : (i1) -> tensor<i1>
  return %new, %chosen : tensor<4xf32>, tensor<i1>
}

// An optional Scalar, and numbers before tensors.
// CHECK-LABEL: func.func @order(
// CHECK: aten.call "aten::clamp"(max = %{{.*}}, self = %{{.*}}) : (f64, tensor<4xf32>) -> tensor<4xf32>
func.func @order(%x: tensor<4xf32>, %high: f64) -> tensor<4xf32> {
  %0 = aten.call "aten::clamp"(max = %high, self = %x) : (f64, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Arithmetic on constants folds to the double that the runtime would compute; what is equal is computed once.
// FOLDED-LABEL: func.func @folds(
// FOLDED-SAME: %[[T:.*]]: tensor<f64>)
// FOLDED-DAG: %[[C:.*]] = arith.constant 0.30000000000000004 : f64
// FOLDED-DAG: %[[ITEM:.*]] = aten.item(%[[T]])
// FOLDED-NEXT: arith.mulf %[[ITEM]], %[[C]] : f64
// FOLDED-NOT: aten.item
func.func @folds(%t: tensor<f64>) -> tensor<f64> {
  %a = arith.constant 0.1 : f64
  %b = arith.constant 0.2 : f64
  %c = arith.addf %a, %b : f64
  %x = aten.item(%t) : (tensor<f64>) -> f64
  %y = aten.item(%t) : (tensor<f64>) -> f64
  %0 = arith.mulf %x, %c : f64
  %1 = arith.subf %0, %y : f64
  %2 = aten.call "aten::scalar_tensor"(s = %1, dtype = f64) : (f64) -> tensor<f64>
  return %2 : tensor<f64>
}
