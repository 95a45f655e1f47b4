// RUN: cleave-opt %s --overlap-communication="arguments-ahead=true max-in-flight-mb=0.00025" | FileCheck %s
// RUN: cleave-opt %s --overlap-communication="max-in-flight-mb=0.00025" | FileCheck %s --check-prefix=ORDER

dist.mesh @mesh ["fsdp" = 2]

// Gathers of arguments start before the scatter that comes first, but not two at once: each has 128
// bytes, what is scattered 64, of 262.
// CHECK-LABEL: func.func @backward
// CHECK-NEXT: %[[F0:.*]] = dist.all_gather(%arg2)
// CHECK-NEXT: %[[N:.*]] = aten.neg(%arg0)
// CHECK-NEXT: %[[R:.*]] = dist.reduce_scatter sum(%[[N]])
// CHECK-NEXT: %[[F1:.*]] = dist.all_gather(%arg1)
// CHECK-NEXT: %[[W0:.*]] = dist.wait %[[F0]]
// CHECK-NEXT: %[[M:.*]] = aten.mul(%[[N]], %[[W0]])
// CHECK-NEXT: %[[W1:.*]] = dist.wait %[[F1]]
// CHECK-NEXT: aten.mul(%[[M]], %[[W1]])
// CHECK-NEXT: dist.wait %[[R]]
// Otherwise it starts no earlier than the scatter.
// ORDER-LABEL: func.func @backward
// ORDER-NEXT: aten.neg
// ORDER-NEXT: dist.all_gather
// ORDER-NEXT: dist.reduce_scatter
func.func @backward(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4x4xf32>) {
  %n = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %r = dist.reduce_scatter sum(%n) dim 0 over @mesh ["fsdp"] : tensor<8x4xf32> -> tensor<4x4xf32>
  %0 = dist.all_gather(%b) dim 0 over @mesh ["fsdp"] : tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = aten.mul(%n, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = dist.all_gather(%a) dim 0 over @mesh ["fsdp"] : tensor<4x4xf32> -> tensor<8x4xf32>
  %3 = aten.mul(%1, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %3, %r : tensor<8x4xf32>, tensor<4x4xf32>
}
