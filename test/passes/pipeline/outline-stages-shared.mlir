// RUN: cleave-opt %s --split-input-file --outline-stages --canonicalize | FileCheck %s
// RUN: cleave-opt %s --split-input-file --outline-stages=explain=true -o /dev/null 2>&1 | FileCheck %s --check-prefix=BYTES

// What crosses for the gradient of a parameter that several stages use is the least from which the
// stage that updates it can compute it.

// A table looked up in three stages. Neither a table's gradient nor the sum of two crosses, but what
// came back for the rows that were looked up; the indices are an input, which every stage may have.
// CHECK: func.func @forward_0(
// CHECK: func.func @backward_2(
// CHECK-NOT: aten.embedding_dense_backward
// CHECK: func.func @backward_0({{.*}}input "i1"{{.*}}input "i2"
// CHECK-COUNT-3: aten.embedding_dense_backward
// CHECK: train.accumulate
// BYTES: to stage 1: {{.*}}; back: 1 gradients, 32 bytes
// BYTES: to stage 2: {{.*}}; back: 1 gradients, 32 bytes
func.func @lookups(
    %w: tensor<64x4xf32> {train.role = #train.role<parameter "w">},
    %i0: tensor<2xi64> {train.role = #train.role<input "i0" batch 0>},
    %i1: tensor<2xi64> {train.role = #train.role<input "i1" batch 0>},
    %i2: tensor<2xi64> {train.role = #train.role<input "i2" batch 0>},
    %aw: tensor<64x4xf32> {train.role = #train.role<accumulator "w">},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<64x4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.embedding(%w, %i0) {train.stage = 0 : i64} : (tensor<64x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = aten.embedding(%w, %i1) {train.stage = 1 : i64} : (tensor<64x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %2 = aten.add(%0, %1) {train.stage = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = aten.embedding(%w, %i2) {train.stage = 2 : i64} : (tensor<64x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %4 = aten.add(%2, %3) {train.stage = 2 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = aten.tanh(%4) {train.stage = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %loss = aten.sum(%5) {train.stage = 2 : i64} : (tensor<2x4xf32>) -> tensor<f32>
  %ones = aten.expand(%s, size = [2, 4]) : (tensor<f32>) -> tensor<2x4xf32>
  %g = aten.tanh_backward(%ones, %5) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %gw2 = aten.embedding_dense_backward(%g, %i2, num_weights = 64, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<64x4xf32>
  %gw1 = aten.embedding_dense_backward(%g, %i1, num_weights = 64, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<64x4xf32>
  %later = aten.add(%gw2, %gw1) : (tensor<64x4xf32>, tensor<64x4xf32>) -> tensor<64x4xf32>
  %gw0 = aten.embedding_dense_backward(%g, %i0, num_weights = 64, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<64x4xf32>
  %gw = aten.add(%later, %gw0) : (tensor<64x4xf32>, tensor<64x4xf32>) -> tensor<64x4xf32>
  %sum = train.accumulate %gw into %aw : tensor<64x4xf32>
  return %loss, %sum : tensor<f32>, tensor<64x4xf32>
}

// -----

// Two rows through a matrix of 16: the activation, which only stage 2 has, goes back with its
// output's gradient, 2 * 128 bytes for 1,024.
// CHECK: func.func @backward_2(
// CHECK-NOT: tensor<16x16xf32> {train.role = #train.role<crossing_gradient
// CHECK: func.func @backward_0(
// BYTES: to stage 1: {{.*}}; back: 3 gradients, 384 bytes
// BYTES: to stage 2: {{.*}}; back: 3 gradients, 384 bytes
func.func @few_rows(
    %x: tensor<2x16xf32> {train.role = #train.role<input "x" batch 0>},
    %w: tensor<16x16xf32> {train.role = #train.role<parameter "w">},
    %aw: tensor<16x16xf32> {train.role = #train.role<accumulator "w">},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<16x16xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) {train.stage = 0 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
  %1 = aten.tanh(%0) {train.stage = 1 : i64} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %2 = aten.tanh(%1) {train.stage = 2 : i64} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %3 = aten.mm(%2, %w) {train.stage = 2 : i64} : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
  %4 = aten.tanh(%3) {train.stage = 2 : i64} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %loss = aten.sum(%4) {train.stage = 2 : i64} : (tensor<2x16xf32>) -> tensor<f32>
  %g = aten.expand(%s, size = [2, 16]) : (tensor<f32>) -> tensor<2x16xf32>
  %g3 = aten.tanh_backward(%g, %4) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %t2 = aten.t(%2) : (tensor<2x16xf32>) -> tensor<16x2xf32>
  %gw2 = aten.mm(%t2, %g3) : (tensor<16x2xf32>, tensor<2x16xf32>) -> tensor<16x16xf32>
  %tw = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %g2 = aten.mm(%g3, %tw) : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
  %g1 = aten.tanh_backward(%g2, %2) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %g0 = aten.tanh_backward(%g1, %1) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %tx = aten.t(%x) : (tensor<2x16xf32>) -> tensor<16x2xf32>
  %gw0 = aten.mm(%tx, %g0) : (tensor<16x2xf32>, tensor<2x16xf32>) -> tensor<16x16xf32>
  %gw = aten.add(%gw2, %gw0) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %sum = train.accumulate %gw into %aw : tensor<16x16xf32>
  return %loss, %sum : tensor<f32>, tensor<16x16xf32>
}
