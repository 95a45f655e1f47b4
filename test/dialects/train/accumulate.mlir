// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: (%[[G:.*]]: tensor<2x3xf32>, %[[A:.*]]: tensor<2x3xf32>)
func.func @accumulate(%g: tensor<2x3xf32>, %a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: train.accumulate %[[G]] into %[[A]] : tensor<2x3xf32>
  %0 = train.accumulate %g into %a : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
