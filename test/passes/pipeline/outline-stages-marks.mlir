// RUN: cleave-opt %s --outline-stages | FileCheck %s
// RUN: cleave-opt %s --outline-stages="count=3 balance=cost mark-only" | FileCheck %s --check-prefix=MARK
// RUN: cleave-opt %s --outline-stages="count=3 balance=cost mark-only" --outline-stages -o %t.marked
// RUN: cleave-opt %s --outline-stages="count=3 balance=cost" | diff - %t.marked

// Marks of a cut by cost replace those that are there; what each stage computes and the backward have none.
// MARK: func.func @microbatch(
// MARK: aten.cos
// MARK-NOT: train.stage
// MARK: aten.mm{{.*}}train.stage = 0
// MARK: aten.mm{{.*}}train.stage = 1
// MARK: aten.sum{{.*}}train.stage = 2
// MARK-NOT: train.stage

// Marked stages, with tied weights, a table that each stage computes, dropout, and an updated buffer
// whose old value a later stage reads.

// CHECK: func.func @forward_0(
// CHECK-SAME: parameter "w"
// CHECK-SAME: constant "angles"
// CHECK-SAME: buffer "count"
// CHECK-SAME: -> ({{.*}}buffer "count">}, {{.*}}crossing "count">}, {{.*}}crossing "mul">}
// CHECK-SAME: train.draws = 8 : i64
// CHECK: aten.cos
// CHECK: return
// CHECK: func.func @forward_1(
// CHECK-SAME: parameter "w"
// CHECK-SAME: constant "angles"
// CHECK-SAME: rng_seed
// CHECK-SAME: crossing "count"
// CHECK-SAME: crossing "mul"
// CHECK-SAME: train.draws = 8 : i64
// CHECK: aten.cos
// CHECK: aten.rng_native_dropout
// CHECK: return
// The tied weight's gradient of the second stage crosses and is added in the first.
// CHECK: func.func @backward_1(
// CHECK-NOT: train.accumulate
// CHECK: func.func @backward_0({{.*}}accumulator "w"{{.*}}crossing_gradient{{.*}}crossing_gradient
// CHECK: aten.add
// CHECK: train.accumulate
func.func @microbatch(
    %x: tensor<2x4xf32> {train.role = #train.role<input "x" batch 0>},
    %w: tensor<4x4xf32> {train.role = #train.role<parameter "w" aliases ["v"]>},
    %angles: tensor<2x4xf32> {train.role = #train.role<constant "angles">},
    %count: tensor<2x4xf32> {train.role = #train.role<buffer "count">},
    %aw: tensor<4x4xf32> {train.role = #train.role<accumulator "w">},
    %seed: tensor<i64> {train.role = #train.role<rng_seed>},
    %offset: tensor<i64> {train.role = #train.role<rng_offset>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<2x4xf32> {train.role = #train.role<buffer "count">},
        tensor<f32> {train.role = #train.role<loss>},
        tensor<4x4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>, train.draws = 8 : i64} {
  %table = aten.cos(%angles) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = aten.mm(%x, %w) {train.stage = 0 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %new = aten.add(%count, %0) {train.stage = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = aten.mul(%0, %table) {train.stage = 0 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = aten.mm(%1, %w) {train.stage = 1 : i64} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3, %mask = aten.rng_native_dropout(%2, %seed, %offset, p = 0.5, position = 0, generator = #aten.generator<mt19937>) : (tensor<2x4xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
  %4 = aten.mul(%3, %table) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = aten.add(%4, %count) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = aten.sum(%5) : (tensor<2x4xf32>) -> tensor<f32>
  %g = aten.expand(%s, size = [2, 4]) : (tensor<f32>) -> tensor<2x4xf32>
  %g4 = aten.mul(%g, %table) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %g3 = aten.mul(%g4, %mask) : (tensor<2x4xf32>, tensor<2x4xi1>) -> tensor<2x4xf32>
  %t1 = aten.t(%1) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %gw1 = aten.mm(%t1, %g3) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %tw = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %g1 = aten.mm(%g3, %tw) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %g0 = aten.mul(%g1, %table) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %tx = aten.t(%x) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %gw0 = aten.mm(%tx, %g0) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %gw = aten.add(%gw1, %gw0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = train.accumulate %gw into %aw : tensor<4x4xf32>
  return %new, %loss, %sum : tensor<2x4xf32>, tensor<f32>, tensor<4x4xf32>
}
