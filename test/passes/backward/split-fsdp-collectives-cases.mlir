// RUN: cleave-opt %s --split-input-file --split-fsdp-collectives | FileCheck %s

// Mixed precision: the shard is cast and gathered in bf16, which is what is held. The gradient is
// reduced in bf16 and accumulated in f32: the sum over microbatches stays f32, and is cast once.

// CHECK-LABEL: func.func @unshard(
// CHECK-SAME: -> (tensor<8xbf16> {train.role = #train.role<saved "unshard.w">})
// CHECK: aten._to_copy
// CHECK-NEXT: dist.all_gather
// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: tensor<8xf32> {train.role = #train.role<accumulator "w">}
// CHECK-SAME: tensor<8xf32> {train.role = #train.role<gradient "w">}
// CHECK-NOT: dist.
// CHECK: %[[D:.*]] = aten.mul(%[[X:.*]], %[[X]])
// CHECK: %[[F:.*]] = aten._to_copy(%[[D]], dtype = f32)
// CHECK-NEXT: train.accumulate %[[F]]
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: %[[G:.*]]: tensor<8xf32> {train.role = #train.role<gradient "w">})
// CHECK-NEXT: %[[N:.*]] = aten._to_copy(%[[G]], dtype = bf16)
// CHECK-NEXT: %[[R:.*]] = dist.reduce_scatter avg(%[[N]]) dim 0 over @mesh ["fsdp"] : tensor<8xbf16> -> tensor<4xbf16>
// CHECK-NEXT: %[[H:.*]] = aten._to_copy(%[[R]], dtype = f32)
// CHECK-NEXT: return %[[H]]
module {
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %a: tensor<4xf32> {train.role = #train.role<accumulator "w">},
                      %x: tensor<8xbf16> {train.role = #train.role<input "x">},
                      %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<8xbf16> {train.role = #train.role<output "0">},
        tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %h = aten._to_copy(%w, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
  %w1 = dist.all_gather(%h) dim 0 over @mesh ["fsdp"] : tensor<4xbf16> -> tensor<8xbf16>
  %y = aten.mul(%x, %w1) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %d = aten.mul(%x, %x) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %d32 = aten._to_copy(%d, dtype = f32) : (tensor<8xbf16>) -> tensor<8xf32>
  %d16 = aten._to_copy(%d32, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  %r = dist.reduce_scatter avg(%d16) dim 0 over @mesh ["fsdp"] : tensor<8xbf16> -> tensor<4xbf16>
  %r32 = aten._to_copy(%r, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
  %sum = train.accumulate %r32 into %a : tensor<4xf32>
  return %y, %sum : tensor<8xbf16>, tensor<4xf32>
}
}

// -----

// Gradients that are added up in bf16 are cast before: a norm's weight, summed in f32.

// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: tensor<8xbf16> {train.role = #train.role<accumulator "w">}
// CHECK: %[[N:.*]] = aten._to_copy({{.*}}, dtype = bf16)
// CHECK-NEXT: train.accumulate %[[N]]
// CHECK-LABEL: func.func @reduce(
// CHECK-NEXT: dist.reduce_scatter sum({{.*}} : tensor<8xbf16> -> tensor<4xbf16>
// CHECK-NEXT: return
module {
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%a: tensor<4xbf16> {train.role = #train.role<accumulator "w">},
                      %w: tensor<4xbf16> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xbf16> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %d = aten.mul(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %d16 = aten._to_copy(%d, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  %r = dist.reduce_scatter sum(%d16) dim 0 over @mesh ["fsdp"] : tensor<8xbf16> -> tensor<4xbf16>
  %sum = train.accumulate %r into %a : tensor<4xbf16>
  return %sum : tensor<4xbf16>
}
}

// -----

// Without an f32 gradient before the reduction the microbatch's bf16 one is widened, and reduced so.

// CHECK-LABEL: func.func @microbatch(
// CHECK: %[[F:.*]] = aten._to_copy({{.*}}, dtype = f32) : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK-NEXT: train.accumulate %[[F]]
// CHECK-LABEL: func.func @reduce(
// CHECK-NEXT: dist.reduce_scatter sum({{.*}} : tensor<8xf32> -> tensor<4xf32>
// CHECK-NEXT: return
module {
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%a: tensor<4xf32> {train.role = #train.role<accumulator "w">},
                      %w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xbf16> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %d = aten.mul(%x, %x) : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %r = dist.reduce_scatter sum(%d) dim 0 over @mesh ["fsdp"] : tensor<8xbf16> -> tensor<4xbf16>
  %r32 = aten._to_copy(%r, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
  %sum = train.accumulate %r32 into %a : tensor<4xf32>
  return %sum : tensor<4xf32>
}
}

// -----

// Hybrid sharding, with started communication: gathered along one axis, reduced along both. The
// gathered weight and a view of it are saved by the forward: both become the one of unshard.

// CHECK-LABEL: func.func @unshard(
// CHECK: %[[F:.*]] = dist.all_gather{{.*}} -> !dist.future<tensor<8x8xf32>>
// CHECK-NEXT: %[[W:.*]] = dist.wait %[[F]]
// CHECK-NEXT: return %[[W]] : tensor<8x8xf32>
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: -> (tensor<2x8xf32> {train.role = #train.role<output "0">})
// CHECK-NOT: dist.
// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[W:arg[0-9]+]]: tensor<8x8xf32> {train.role = #train.role<saved "unshard.w">})
// CHECK: aten.t(%[[W]])
// CHECK-NOT: dist.
// CHECK-LABEL: func.func @reduce(
// CHECK: dist.reduce_scatter sum({{.*}} over @mesh ["fsdp"]
// CHECK-NEXT: dist.wait
// CHECK-NEXT: dist.all_reduce sum({{.*}} over @mesh ["dp"]
// CHECK-NEXT: return
module {
dist.mesh @mesh ["dp" = 2, "fsdp" = 2]
func.func @forward(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<2x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<2x8xf32> {train.role = #train.role<output "0">},
        tensor<8x8xf32> {train.role = #train.role<saved "whole">},
        tensor<8x8xf32> {train.role = #train.role<saved "turned">})
    attributes {train.phase = #train.phase<forward>} {
  %f = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> !dist.future<tensor<8x8xf32>>
  %w1 = dist.wait %f : tensor<8x8xf32>
  %wt = aten.t(%w1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = aten.mm(%x, %wt) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  return %y, %w1, %wt : tensor<2x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func @backward(%x: tensor<2x8xf32> {train.role = #train.role<input "x">},
                    %w1: tensor<8x8xf32> {train.role = #train.role<saved "whole">},
                    %wt: tensor<8x8xf32> {train.role = #train.role<saved "turned">})
    -> (tensor<4x8xf32> {train.role = #train.role<gradient "w">},
        tensor<2x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %d = aten.mm(%w1, %wt) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %dx = aten.mm(%x, %w1) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %f = dist.reduce_scatter sum(%d) dim 0 over @mesh ["fsdp"] : tensor<8x8xf32> -> !dist.future<tensor<4x8xf32>>
  %s = dist.wait %f : tensor<4x8xf32>
  %r = dist.all_reduce sum(%s) over @mesh ["dp"] : tensor<4x8xf32>
  return %r, %dx : tensor<4x8xf32>, tensor<2x8xf32>
}
}

// -----

// Coalesced communication moves whole; what is not linear, or used for something else, stays, and
// with it a coalesced reduction one of whose gradients stays.

// CHECK-LABEL: func.func @unshard(
// CHECK: dist.all_gather(%{{.*}}, %{{.*}}) dim 0
// CHECK-LABEL: func.func @microbatch(
// CHECK: dist.reduce_scatter sum(%{{.*}}, %{{.*}}) dim 0
// CHECK: dist.reduce_scatter max(
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: gradient "a">}, %{{.*}}: tensor<8xf32> {train.role = #train.role<gradient "b">})
// CHECK: dist.reduce_scatter sum(%{{.*}}, %{{.*}}) dim 0
module {
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%a: tensor<4xf32> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32> {train.role = #train.role<parameter "b">},
                      %c: tensor<4xf32> {train.role = #train.role<parameter "c">},
                      %d: tensor<4xf32> {train.role = #train.role<parameter "d">},
                      %e: tensor<4xf32> {train.role = #train.role<parameter "e">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "a">},
        tensor<4xf32> {train.role = #train.role<gradient "b">},
        tensor<4xf32> {train.role = #train.role<gradient "c">},
        tensor<4xf32> {train.role = #train.role<gradient "d">},
        tensor<4xf32> {train.role = #train.role<gradient "e">},
        tensor<f32> {train.role = #train.role<output "norm">})
    attributes {train.phase = #train.phase<microbatch>} {
  %w:2 = dist.all_gather(%a, %b) dim 0 over @mesh ["fsdp"] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>, tensor<8xf32>
  %ga = aten.exp(%w#0) : (tensor<8xf32>) -> tensor<8xf32>
  %gb = aten.exp(%w#1) : (tensor<8xf32>) -> tensor<8xf32>
  %gc = aten.mul(%ga, %gb) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r:2 = dist.reduce_scatter sum(%ga, %gb) dim 0 over @mesh ["fsdp"] : tensor<8xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<4xf32>
  %q:2 = dist.reduce_scatter sum(%gc, %gc) dim 0 over @mesh ["fsdp"] : tensor<8xf32>, tensor<8xf32> -> tensor<4xf32>, tensor<4xf32>
  %norm = aten.sum(%q#1) : (tensor<4xf32>) -> tensor<f32>
  %m = dist.reduce_scatter max(%gc) dim 0 over @mesh ["fsdp"] : tensor<8xf32> -> tensor<4xf32>
  return %r#0, %r#1, %q#0, %q#1, %m, %norm : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
}
