// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: (%[[G:.*]]: tensor<2x3xf32>, %[[A:.*]]: tensor<2x3xf32>)
func.func @accumulate(%g: tensor<2x3xf32>, %a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: train.accumulate %[[G]] into %[[A]] : tensor<2x3xf32>
  %0 = train.accumulate %g into %a : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @in_f32
// CHECK-SAME: (%[[G:.*]]: tensor<2x3xbf16>, %[[H:.*]]: tensor<2x3xf16>, %[[A:.*]]: tensor<2x3xf32>)
func.func @in_f32(%g: tensor<2x3xbf16>, %h: tensor<2x3xf16>, %a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[SUM:.*]] = train.accumulate %[[G]] into %[[A]] : tensor<2x3xbf16> into tensor<2x3xf32>
  %0 = train.accumulate %g into %a : tensor<2x3xbf16> into tensor<2x3xf32>
  // CHECK: train.accumulate %[[H]] into %[[SUM]] : tensor<2x3xf16> into tensor<2x3xf32>
  %1 = train.accumulate %h into %0 : tensor<2x3xf16> into tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
