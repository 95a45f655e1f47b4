// Elements by rank: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @topk(
// CHECK: aten.topk(%{{.*}}, k = 2) : (tensor<64x4xf32>) -> (tensor<64x2xf32>, tensor<64x2xi64>)
func.func @topk(%x: tensor<64x4xf32>) {
  %0:2 = aten.topk(%x, k = 2) : (tensor<64x4xf32>) -> (tensor<64x2xf32>, tensor<64x2xi64>)
  return
}

// CHECK-LABEL: @topk_2(
// CHECK: aten.topk(%{{.*}}, k = 3, dim = 0, largest = false, sorted = false) : (tensor<4x8xi64>) -> (tensor<3x8xi64>, tensor<3x8xi64>)
func.func @topk_2(%x: tensor<4x8xi64>) {
  %0:2 = aten.topk(%x, k = 3, dim = 0, largest = false, sorted = false) : (tensor<4x8xi64>) -> (tensor<3x8xi64>, tensor<3x8xi64>)
  return
}

// CHECK-LABEL: @topk_3(
// CHECK: aten.topk(%{{.*}}, k = 1) : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
func.func @topk_3(%x: tensor<f32>) {
  %0:2 = aten.topk(%x, k = 1) : (tensor<f32>) -> (tensor<f32>, tensor<i64>)
  return
}

// CHECK-LABEL: @sort(
// CHECK: aten.sort(%{{.*}}) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
func.func @sort(%x: tensor<4x8xf32>) {
  %0:2 = aten.sort(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return
}

// CHECK-LABEL: @sort_2(
// CHECK: aten.sort(%{{.*}}, dim = 0, descending = true) : (tensor<4x8xi32>) -> (tensor<4x8xi32>, tensor<4x8xi64>)
func.func @sort_2(%x: tensor<4x8xi32>) {
  %0:2 = aten.sort(%x, dim = 0, descending = true) : (tensor<4x8xi32>) -> (tensor<4x8xi32>, tensor<4x8xi64>)
  return
}

// CHECK-LABEL: @max_dim(
// CHECK: aten.max_dim(%{{.*}}, dim = -1) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
func.func @max_dim(%x: tensor<4x8xf32>) {
  %0:2 = aten.max_dim(%x, dim = -1) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return
}

// CHECK-LABEL: @max_dim_2(
// CHECK: aten.max_dim(%{{.*}}, dim = 0, keepdim = true) : (tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xi64>)
func.func @max_dim_2(%x: tensor<4x8xf32>) {
  %0:2 = aten.max_dim(%x, dim = 0, keepdim = true) : (tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xi64>)
  return
}
