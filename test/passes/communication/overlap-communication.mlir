// RUN: cleave-opt %s --overlap-communication --split-input-file | FileCheck %s
// RUN: cleave-opt %s --overlap-communication="max-in-flight-mb=0.0002" --split-input-file | FileCheck %s --check-prefix=BOUND

dist.mesh @mesh ["fsdp" = 2]

// Gathers of arguments start at the beginning, in their order, and are awaited where they are used.
// Each result has 128 bytes: at most one of them is under way within 0.0002 MiB.
// CHECK-LABEL: func.func @gathers
// CHECK-NEXT: %[[F0:.*]] = dist.all_gather(%{{.*}}) dim 0 over @mesh ["fsdp"] : tensor<4x4xf32> -> !dist.future<tensor<8x4xf32>>
// CHECK-NEXT: %[[F1:.*]] = dist.all_gather
// CHECK-NEXT: %[[N:.*]] = aten.neg
// CHECK-NEXT: %[[W0:.*]] = dist.wait %[[F0]] : tensor<8x4xf32>
// CHECK-NEXT: %[[M:.*]] = aten.mul(%[[N]], %[[W0]])
// CHECK-NEXT: %[[W1:.*]] = dist.wait %[[F1]] : tensor<8x4xf32>
// CHECK-NEXT: aten.mul(%[[M]], %[[W1]])
// BOUND-LABEL: func.func @gathers
// BOUND-NEXT: %[[F0:.*]] = dist.all_gather
// BOUND-NEXT: aten.neg
// BOUND-NEXT: %[[F1:.*]] = dist.all_gather
// BOUND-NEXT: dist.wait %[[F0]]
// BOUND-NEXT: aten.mul
// BOUND-NEXT: dist.wait %[[F1]]
func.func @gathers(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %n = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %0 = dist.all_gather(%a) dim 0 over @mesh ["fsdp"] : tensor<4x4xf32> -> tensor<8x4xf32>
  %1 = aten.mul(%n, %0) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = dist.all_gather(%b) dim 0 over @mesh ["fsdp"] : tensor<4x4xf32> -> tensor<8x4xf32>
  %3 = aten.mul(%1, %2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

// A reduction starts when its operand is there and is awaited by the end; nothing overlaps with
// one that is used at once.
// CHECK-LABEL: func.func @reductions
// CHECK: %[[F:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["fsdp"] : tensor<4xf32> -> !dist.future<tensor<4xf32>>
// CHECK-NEXT: aten.exp
// CHECK-NEXT: %[[L:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["fsdp"] : tensor<4xf32>{{$}}
// CHECK-NEXT: aten.neg(%[[L]])
// CHECK-NEXT: dist.wait %[[F]]
// CHECK-NEXT: return
func.func @reductions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %n = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dist.all_reduce sum(%n) over @mesh ["fsdp"] : tensor<4xf32>
  %e = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dist.all_reduce sum(%e) over @mesh ["fsdp"] : tensor<4xf32>
  %2 = aten.neg(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// Nothing moves over a barrier, and a reduction of a gathered value stays where it is.
// CHECK-LABEL: func.func @order
// CHECK-NEXT: aten.neg
// CHECK-NEXT: dist.barrier
// CHECK-NEXT: %[[F:.*]] = dist.all_gather
// CHECK-NEXT: aten.exp
// CHECK-NEXT: %[[W:.*]] = dist.wait %[[F]]
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%[[W]]) {{.*}} -> !dist.future
// CHECK-NEXT: aten.sin
// CHECK-NEXT: dist.wait %[[R]]
func.func @order(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %n = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  dist.barrier over @mesh ["fsdp"]
  %e = aten.exp(%n) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = dist.all_gather(%x) dim 0 over @mesh ["fsdp"] : tensor<4xf32> -> tensor<8xf32>
  %1 = dist.all_reduce sum(%0) over @mesh ["fsdp"] : tensor<8xf32>
  %s = aten.sin(%e) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %s : tensor<8xf32>, tensor<4xf32>
}
