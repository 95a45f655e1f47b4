// The product is what the script looks for: all else goes, functions, results and operands' ops.
//
// RUN: cleave-reduce %s --reduce-program='test=%S/Inputs/needs-mm.sh' | FileCheck %s

// CHECK:      module {
// CHECK-NEXT:   func.func @main(%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x4xf32>) -> tensor<4x4xf32> {
// CHECK-NEXT:     %[[P:.*]] = aten.mm(%[[X]], %[[W]])
// CHECK-NEXT:     return %[[P]] : tensor<4x4xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

func.func @unrelated(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = aten.t(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>)
    -> (tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) {
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = train.accumulate %w into %0 : tensor<8x4xf32>
  %2 = train.accumulate %1 into %w : tensor<8x4xf32>
  %3 = aten.mm(%x, %2) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %4 = aten.t(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = train.accumulate %4 into %3 : tensor<4x4xf32>
  return %4, %2, %5 : tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>
}
