// RUN: cleave-opt %s --propagate-placements=uneven=true --partition=uneven=true | FileCheck %s
// RUN: not cleave-opt %s --propagate-placements 2>&1 | FileCheck %s --check-prefix=EVEN

// Eight rows over three ranks are 3, 3 and 2: two classes of ranks, which gather and scatter in the
// same order.
dist.mesh @mesh ["fsdp" = 3]

// EVEN: shards dimension 0 of 'tensor<8x5xf32>', of size 8, over the 3 ranks of "fsdp", which do not divide it: all shards must have the same size, unless the option uneven is set

// CHECK-LABEL: func.func @microbatch_0
// CHECK-SAME: %arg1: tensor<3x5xf32, #S0_fsdp> {train.role = #train.role<parameter "w">}
// CHECK-SAME: train.ranks = {fsdp = array<i64: 0, 1>}
// CHECK: dist.all_gather(%arg1) dim 0 over @mesh ["fsdp"] : tensor<3x5xf32, #S0_fsdp> -> tensor<8x5xf32, #R_fsdp>
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["fsdp"] : tensor<8x5xf32, #P_fsdp> -> tensor<3x5xf32, #S0_fsdp>
// CHECK-LABEL: func.func @microbatch_1
// CHECK-SAME: train.ranks = {fsdp = array<i64: 2>}
// CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["fsdp"] : tensor<2x5xf32, #S0_fsdp> -> tensor<8x5xf32, #R_fsdp>
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["fsdp"] : tensor<8x5xf32, #P_fsdp> -> tensor<2x5xf32, #S0_fsdp>
// CHECK-LABEL: func.func @update_0
// CHECK-SAME: train.ranks = {fsdp = array<i64: 0, 1>}
// CHECK-LABEL: func.func @update_1
func.func @microbatch(
    %x: tensor<6x8xf32> {train.role = #train.role<input "x" batch 0>,
                         dist.placement = #dist.on<@mesh, fsdp = S(0)>},
    %w: tensor<8x5xf32> {train.role = #train.role<parameter "w">,
                         dist.placement = #dist.on<@mesh, fsdp = S(0)>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<8x5xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %h = aten.mm(%x, %w) : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %l = aten.sum(%h) : (tensor<6x5xf32>) -> tensor<f32>
  %dy = aten.expand(%s, size = [6, 5]) : (tensor<f32>) -> tensor<6x5xf32>
  %xt = aten.t(%x) : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %dw = aten.mm(%xt, %dy) : (tensor<8x6xf32>, tensor<6x5xf32>) -> tensor<8x5xf32>
  return %l, %dw : tensor<f32>, tensor<8x5xf32>
}
func.func @update(
    %w: tensor<8x5xf32> {train.role = #train.role<parameter "w">},
    %dw: tensor<8x5xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<8x5xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %w1 = aten.sub(%w, %dw, alpha = 1.0e-02) : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  return %w1 : tensor<8x5xf32>
}
