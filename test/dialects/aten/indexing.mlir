// Reading and writing at places that a tensor names: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @embedding(
// CHECK: aten.embedding(%{{.*}}, %{{.*}}) : (tensor<256x32xf32>, tensor<2x16xi64>) -> tensor<2x16x32xf32>
func.func @embedding(%w: tensor<256x32xf32>, %i: tensor<2x16xi64>) {
  %0 = aten.embedding(%w, %i) : (tensor<256x32xf32>, tensor<2x16xi64>) -> tensor<2x16x32xf32>
  return
}

// CHECK-LABEL: @embedding_2(
// CHECK: aten.embedding(%{{.*}}, %{{.*}}, padding_idx = 0, scale_grad_by_freq = true, sparse = false) : (tensor<256x32xf32>, tensor<i32>) -> tensor<32xf32>
func.func @embedding_2(%w: tensor<256x32xf32>, %i: tensor<i32>) {
  %0 = aten.embedding(%w, %i, padding_idx = 0, scale_grad_by_freq = true, sparse = false) : (tensor<256x32xf32>, tensor<i32>) -> tensor<32xf32>
  return
}

// CHECK-LABEL: @embedding_dense_backward(
// CHECK: aten.embedding_dense_backward(%{{.*}}, %{{.*}}, num_weights = 32, padding_idx = -1, scale_grad_by_freq = false) : (tensor<1x16x32xf32>, tensor<1x16xi64>) -> tensor<32x32xf32>
func.func @embedding_dense_backward(%g: tensor<1x16x32xf32>, %i: tensor<1x16xi64>) {
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = 32, padding_idx = -1, scale_grad_by_freq = false) : (tensor<1x16x32xf32>, tensor<1x16xi64>) -> tensor<32x32xf32>
  return
}

// CHECK-LABEL: @index(
// CHECK: aten.index(%{{.*}}, [%{{.*}}]) : (tensor<161x32xf32>, tensor<128xi64>) -> tensor<128x32xf32>
func.func @index(%x: tensor<161x32xf32>, %i: tensor<128xi64>) {
  %0 = aten.index(%x, [%i]) : (tensor<161x32xf32>, tensor<128xi64>) -> tensor<128x32xf32>
  return
}

// CHECK-LABEL: @index_2(
// CHECK: aten.index(%{{.*}}, [%{{.*}}, %{{.*}}]) : (tensor<2x16xi64>, tensor<2x1xi64>, tensor<16xi64>) -> tensor<2x16xi64>
func.func @index_2(%x: tensor<2x16xi64>, %i: tensor<2x1xi64>, %j: tensor<16xi64>) {
  %0 = aten.index(%x, [%i, %j]) : (tensor<2x16xi64>, tensor<2x1xi64>, tensor<16xi64>) -> tensor<2x16xi64>
  return
}

// CHECK-LABEL: @index_3(
// CHECK: aten.index(%{{.*}}, [none, %{{.*}}]) : (tensor<4x8x6xf32>, tensor<3x5xi64>) -> tensor<4x3x5x6xf32>
func.func @index_3(%x: tensor<4x8x6xf32>, %i: tensor<3x5xi64>) {
  %0 = aten.index(%x, [none, %i]) : (tensor<4x8x6xf32>, tensor<3x5xi64>) -> tensor<4x3x5x6xf32>
  return
}

// CHECK-LABEL: @index_4(
// CHECK: aten.index(%{{.*}}, [%{{.*}}, none, %{{.*}}]) : (tensor<4x8x6xf32>, tensor<3x1xi64>, tensor<5xi64>) -> tensor<3x5x8xf32>
func.func @index_4(%x: tensor<4x8x6xf32>, %i: tensor<3x1xi64>, %j: tensor<5xi64>) {
  %0 = aten.index(%x, [%i, none, %j]) : (tensor<4x8x6xf32>, tensor<3x1xi64>, tensor<5xi64>) -> tensor<3x5x8xf32>
  return
}

// CHECK-LABEL: @index_5(
// CHECK: aten.index(%{{.*}}, [none, %{{.*}}, %{{.*}}, none]) : (tensor<4x8x6x7xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<4x3x7xf32>
func.func @index_5(%x: tensor<4x8x6x7xf32>, %i: tensor<3xi64>, %j: tensor<3xi64>) {
  %0 = aten.index(%x, [none, %i, %j, none]) : (tensor<4x8x6x7xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<4x3x7xf32>
  return
}

// CHECK-LABEL: @index_put(
// CHECK: aten.index_put(%{{.*}}, [%{{.*}}], %{{.*}}, accumulate = true) : (tensor<161x32xf32>, tensor<128xi64>, tensor<128x32xf32>) -> tensor<161x32xf32>
func.func @index_put(%x: tensor<161x32xf32>, %i: tensor<128xi64>, %v: tensor<128x32xf32>) {
  %0 = aten.index_put(%x, [%i], %v, accumulate = true) : (tensor<161x32xf32>, tensor<128xi64>, tensor<128x32xf32>) -> tensor<161x32xf32>
  return
}

// CHECK-LABEL: @index_put_2(
// CHECK: aten.index_put(%{{.*}}, [none, %{{.*}}], %{{.*}}) : (tensor<4x8xf32>, tensor<3xi64>, tensor<f32>) -> tensor<4x8xf32>
func.func @index_put_2(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %v: tensor<f32>) {
  %0 = aten.index_put(%x, [none, %i], %v) : (tensor<4x8xf32>, tensor<3xi64>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @index_put_3(
// CHECK: aten.index_put(%{{.*}}, [%{{.*}}], %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xi1>, tensor<f32>) -> tensor<4x8xf32>
func.func @index_put_3(%x: tensor<4x8xf32>, %m: tensor<4x8xi1>, %v: tensor<f32>) {
  %0 = aten.index_put(%x, [%m], %v) : (tensor<4x8xf32>, tensor<4x8xi1>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @index_select(
// CHECK: aten.index_select(%{{.*}}, dim = 0, %{{.*}}) : (tensor<161x32xf32>, tensor<128xi64>) -> tensor<128x32xf32>
func.func @index_select(%x: tensor<161x32xf32>, %i: tensor<128xi64>) {
  %0 = aten.index_select(%x, dim = 0, %i) : (tensor<161x32xf32>, tensor<128xi64>) -> tensor<128x32xf32>
  return
}

// CHECK-LABEL: @index_select_2(
// CHECK: aten.index_select(%{{.*}}, dim = -1, %{{.*}}) : (tensor<4x8xf32>, tensor<i32>) -> tensor<4x1xf32>
func.func @index_select_2(%x: tensor<4x8xf32>, %i: tensor<i32>) {
  %0 = aten.index_select(%x, dim = -1, %i) : (tensor<4x8xf32>, tensor<i32>) -> tensor<4x1xf32>
  return
}

// CHECK-LABEL: @index_add(
// CHECK: aten.index_add(%{{.*}}, dim = 0, %{{.*}}, %{{.*}}) : (tensor<161x32xf32>, tensor<128xi64>, tensor<128x32xf32>) -> tensor<161x32xf32>
func.func @index_add(%x: tensor<161x32xf32>, %i: tensor<128xi64>, %s: tensor<128x32xf32>) {
  %0 = aten.index_add(%x, dim = 0, %i, %s) : (tensor<161x32xf32>, tensor<128xi64>, tensor<128x32xf32>) -> tensor<161x32xf32>
  return
}

// CHECK-LABEL: @index_add_2(
// CHECK: aten.index_add(%{{.*}}, dim = 1, %{{.*}}, %{{.*}}, alpha = 2) : (tensor<4x8xf32>, tensor<3xi64>, tensor<4x3xf32>) -> tensor<4x8xf32>
func.func @index_add_2(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %s: tensor<4x3xf32>) {
  %0 = aten.index_add(%x, dim = 1, %i, %s, alpha = 2) : (tensor<4x8xf32>, tensor<3xi64>, tensor<4x3xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @gather(
// CHECK: aten.gather(%{{.*}}, dim = -1, %{{.*}}) : (tensor<4x8xf32>, tensor<3x16xi64>) -> tensor<3x16xf32>
func.func @gather(%x: tensor<4x8xf32>, %i: tensor<3x16xi64>) {
  %0 = aten.gather(%x, dim = -1, %i) : (tensor<4x8xf32>, tensor<3x16xi64>) -> tensor<3x16xf32>
  return
}

// CHECK-LABEL: @gather_2(
// CHECK: aten.gather(%{{.*}}, dim = 0, %{{.*}}, sparse_grad = false) : (tensor<4x8xf32>, tensor<9x8xi64>) -> tensor<9x8xf32>
func.func @gather_2(%x: tensor<4x8xf32>, %i: tensor<9x8xi64>) {
  %0 = aten.gather(%x, dim = 0, %i, sparse_grad = false) : (tensor<4x8xf32>, tensor<9x8xi64>) -> tensor<9x8xf32>
  return
}

// CHECK-LABEL: @scatter_src(
// CHECK: aten.scatter_src(%{{.*}}, dim = -1, %{{.*}}, %{{.*}}) : (tensor<64x4xf32>, tensor<64x2xi64>, tensor<64x2xf32>) -> tensor<64x4xf32>
func.func @scatter_src(%x: tensor<64x4xf32>, %i: tensor<64x2xi64>, %s: tensor<64x2xf32>) {
  %0 = aten.scatter_src(%x, dim = -1, %i, %s) : (tensor<64x4xf32>, tensor<64x2xi64>, tensor<64x2xf32>) -> tensor<64x4xf32>
  return
}

// CHECK-LABEL: @scatter_add(
// CHECK: aten.scatter_add(%{{.*}}, dim = 0, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<3x8xi64>, tensor<5x8xf32>) -> tensor<4x8xf32>
func.func @scatter_add(%x: tensor<4x8xf32>, %i: tensor<3x8xi64>, %s: tensor<5x8xf32>) {
  %0 = aten.scatter_add(%x, dim = 0, %i, %s) : (tensor<4x8xf32>, tensor<3x8xi64>, tensor<5x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @scatter_value(
// CHECK: aten.scatter_value(%{{.*}}, dim = 1, %{{.*}}, value = true) : (tensor<4x8xi1>, tensor<4x2xi64>) -> tensor<4x8xi1>
func.func @scatter_value(%x: tensor<4x8xi1>, %i: tensor<4x2xi64>) {
  %0 = aten.scatter_value(%x, dim = 1, %i, value = true) : (tensor<4x8xi1>, tensor<4x2xi64>) -> tensor<4x8xi1>
  return
}

// CHECK-LABEL: @_unsafe_index(
// CHECK: aten._unsafe_index(%{{.*}}, [none, %{{.*}}]) : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<4x3xf32>
func.func @_unsafe_index(%x: tensor<4x8xf32>, %i: tensor<3xi64>) {
  %0 = aten._unsafe_index(%x, [none, %i]) : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  return
}

// CHECK-LABEL: @_unsafe_index_put(
// CHECK: aten._unsafe_index_put(%{{.*}}, [%{{.*}}], %{{.*}}, accumulate = true) : (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
func.func @_unsafe_index_put(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %v: tensor<3x8xf32>) {
  %0 = aten._unsafe_index_put(%x, [%i], %v, accumulate = true) : (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
  return
}
