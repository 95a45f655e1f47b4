// Activation checkpointing: two regions and a random op. With either policy, a region is computed again
// from what enters it, and what enters the second is saved although the first may compute it again.

// RUN: cleave-opt %s --partition-joint="policy=save-all" | FileCheck %s 
// RUN: cleave-opt %s --partition-joint="policy=min-cut" | FileCheck %s 

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x4xf32> {train.role = #train.role<saved "mm">}, tensor<4x4xf32> {train.role = #train.role<saved "rng_native_dropout">}, tensor<4x4xf32> {train.role = #train.role<saved "mm.1">})
// CHECK-SAME: train.draws = 16 : i64
// CHECK-NOT: train.checkpoint
// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[SEED:[^:]*]]: tensor<i64> {train.role = #train.role<rng_seed>}, %[[OFFSET:[^:]*]]: tensor<i64> {train.role = #train.role<rng_offset>}
// CHECK-SAME: %[[MM:[^:]*]]: tensor<4x4xf32> {train.role = #train.role<saved "mm">}, %[[DROPPED:[^:]*]]: tensor<4x4xf32> {train.role = #train.role<saved "rng_native_dropout">}, %[[MM1:[^:]*]]: tensor<4x4xf32> {train.role = #train.role<saved "mm.1">}
// The second region, whose product is to be saved, from that and what enters it; as late as it is needed.
// CHECK: aten.expand
// CHECK-NEXT: aten.sin(%[[MM1]])
// CHECK: %[[COS:.*]] = aten.cos(%[[DROPPED]]) {train.recomputed}
// CHECK-NEXT: aten.t(%[[COS]])
// CHECK: aten.mm({{.*}})
// The first, random numbers included: the same seed, offset and position.
// CHECK: %[[EXP:.*]] = aten.exp(%[[MM]]) {train.recomputed}
// CHECK-NEXT: aten.rng_native_dropout(%[[EXP]], %[[SEED]], %[[OFFSET]], p = 5.000000e-01, position = 0, generator = #aten.generator<mt19937>) {train.recomputed}
// CHECK: return
module @checkpointed {
  func.func @microbatch(
      %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<4x4xf32> {train.role = #train.role<input "x" batch 0>},
      %s: tensor<f32> {train.role = #train.role<seed>},
      %rs: tensor<i64> {train.role = #train.role<rng_seed>},
      %ro: tensor<i64> {train.role = #train.role<rng_offset>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<4x4xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>, train.draws = 16 : i64} {
    %h = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = aten.exp(%h) {train.checkpoint = #train.checkpoint<prefer_recompute, graph 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %d, %mask = aten.rng_native_dropout(%e, %rs, %ro, p = 0.5, position = 0, generator = #aten.generator<mt19937>) {train.checkpoint = #train.checkpoint<prefer_recompute, graph 0>} : (tensor<4x4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x4xf32>, tensor<4x4xi1>)
    %c = aten.cos(%d) {train.checkpoint = #train.checkpoint<must_recompute, graph 1>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %p = aten.mm(%c, %w) {train.checkpoint = #train.checkpoint<must_save, graph 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %q = aten.cos(%p) {train.checkpoint = #train.checkpoint<prefer_recompute, graph 1>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %loss = aten.mean(%q) : (tensor<4x4xf32>) -> tensor<f32>
    %b0 = aten.expand(%s, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
    %b1 = aten.sin(%p) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b2 = aten.mul(%b0, %b1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ct = aten.t(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %g1 = aten.mm(%ct, %b2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %sd = aten.sin(%d) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b3 = aten.mul(%b2, %sd) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b4 = aten.native_dropout_backward(%b3, %mask, scale = 2.0) : (tensor<4x4xf32>, tensor<4x4xi1>) -> tensor<4x4xf32>
    %b5 = aten.mul(%b4, %e) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %g2 = aten.add(%g1, %b5) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %loss, %g2 : tensor<f32>, tensor<4x4xf32>
  }
}
