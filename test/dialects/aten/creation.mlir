// Tensors made from numbers and sizes: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @zeros(
// CHECK: aten.zeros(size = [64, 4], dtype = f32) : () -> tensor<64x4xf32>
func.func @zeros() {
  %0 = aten.zeros(size = [64, 4], dtype = f32) : () -> tensor<64x4xf32>
  return
}

// CHECK-LABEL: @zeros_2(
// CHECK: aten.zeros(size = []) : () -> tensor<f32>
func.func @zeros_2() {
  %0 = aten.zeros(size = []) : () -> tensor<f32>
  return
}

// CHECK-LABEL: @ones(
// CHECK: aten.ones(size = [32, 32], dtype = i1) : () -> tensor<32x32xi1>
func.func @ones() {
  %0 = aten.ones(size = [32, 32], dtype = i1) : () -> tensor<32x32xi1>
  return
}

// CHECK-LABEL: @full(
// CHECK: aten.full(size = [2], fill_value = 3) : () -> tensor<2xi64>
func.func @full() {
  %0 = aten.full(size = [2], fill_value = 3) : () -> tensor<2xi64>
  return
}

// CHECK-LABEL: @full_2(
// CHECK: aten.full(size = [2], fill_value = true) : () -> tensor<2xi1>
func.func @full_2() {
  %0 = aten.full(size = [2], fill_value = true) : () -> tensor<2xi1>
  return
}

// CHECK-LABEL: @full_3(
// CHECK: aten.full(size = [], fill_value = 0xFFF0000000000000 : f64) : () -> tensor<f32>
func.func @full_3() {
  %0 = aten.full(size = [], fill_value = 0xFFF0000000000000 : f64) : () -> tensor<f32>
  return
}

// CHECK-LABEL: @full_4(
// CHECK: aten.full(size = [2], fill_value = 1.500000e+00, dtype = bf16) : () -> tensor<2xbf16>
func.func @full_4() {
  %0 = aten.full(size = [2], fill_value = 1.5, dtype = bf16) : () -> tensor<2xbf16>
  return
}

// CHECK-LABEL: @scalar_tensor(
// CHECK: aten.scalar_tensor(s = 0xFFF0000000000000 : f64, dtype = f32) : () -> tensor<f32>
func.func @scalar_tensor() {
  %0 = aten.scalar_tensor(s = 0xFFF0000000000000 : f64, dtype = f32) : () -> tensor<f32>
  return
}

// CHECK-LABEL: @scalar_tensor_2(
// CHECK: aten.scalar_tensor(s = 160, dtype = i64) : () -> tensor<i64>
func.func @scalar_tensor_2() {
  %0 = aten.scalar_tensor(s = 160, dtype = i64) : () -> tensor<i64>
  return
}

// CHECK-LABEL: @scalar_tensor_3(
// CHECK: aten.scalar_tensor(s = 3) : () -> tensor<f32>
func.func @scalar_tensor_3() {
  %0 = aten.scalar_tensor(s = 3) : () -> tensor<f32>
  return
}

// CHECK-LABEL: @arange(
// CHECK: aten.arange(end = 32) : () -> tensor<32xi64>
func.func @arange() {
  %0 = aten.arange(end = 32) : () -> tensor<32xi64>
  return
}

// CHECK-LABEL: @arange_2(
// CHECK: aten.arange(end = 2.500000e+00) : () -> tensor<3xf32>
func.func @arange_2() {
  %0 = aten.arange(end = 2.5) : () -> tensor<3xf32>
  return
}

// CHECK-LABEL: @arange_3(
// CHECK: aten.arange(end = 4, dtype = f64) : () -> tensor<4xf64>
func.func @arange_3() {
  %0 = aten.arange(end = 4, dtype = f64) : () -> tensor<4xf64>
  return
}

// CHECK-LABEL: @arange_start(
// CHECK: aten.arange_start(start = 0, end = 16) : () -> tensor<16xi64>
func.func @arange_start() {
  %0 = aten.arange_start(start = 0, end = 16) : () -> tensor<16xi64>
  return
}

// CHECK-LABEL: @arange_start_2(
// CHECK: aten.arange_start(start = 5.000000e-01, end = 2) : () -> tensor<2xf32>
func.func @arange_start_2() {
  %0 = aten.arange_start(start = 0.5, end = 2) : () -> tensor<2xf32>
  return
}

// CHECK-LABEL: @arange_start_step(
// CHECK: aten.arange_start_step(start = 0, end = 16, step = 5) : () -> tensor<4xi64>
func.func @arange_start_step() {
  %0 = aten.arange_start_step(start = 0, end = 16, step = 5) : () -> tensor<4xi64>
  return
}

// CHECK-LABEL: @arange_start_step_2(
// CHECK: aten.arange_start_step(start = 16, end = 0, step = -5) : () -> tensor<4xi64>
func.func @arange_start_step_2() {
  %0 = aten.arange_start_step(start = 16, end = 0, step = -5) : () -> tensor<4xi64>
  return
}

// CHECK-LABEL: @arange_start_step_3(
// CHECK: aten.arange_start_step(start = 0, end = 3) : () -> tensor<3xi64>
func.func @arange_start_step_3() {
  %0 = aten.arange_start_step(start = 0, end = 3) : () -> tensor<3xi64>
  return
}

// CHECK-LABEL: @zeros_like(
// CHECK: aten.zeros_like(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @zeros_like(%x: tensor<4x8xf32>) {
  %0 = aten.zeros_like(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @ones_like(
// CHECK: aten.ones_like(%{{.*}}, dtype = i64) : (tensor<4x8xf32>) -> tensor<4x8xi64>
func.func @ones_like(%x: tensor<4x8xf32>) {
  %0 = aten.ones_like(%x, dtype = i64) : (tensor<4x8xf32>) -> tensor<4x8xi64>
  return
}

// CHECK-LABEL: @full_like(
// CHECK: aten.full_like(%{{.*}}, fill_value = 2, memory_format = "contiguous_format") : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @full_like(%x: tensor<4x8xf32>) {
  %0 = aten.full_like(%x, fill_value = 2, memory_format = "contiguous_format") : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @new_zeros(
// CHECK: aten.new_zeros(%{{.*}}, size = [161, 32], dtype = f32) : (tensor<128x32xf32>) -> tensor<161x32xf32>
func.func @new_zeros(%x: tensor<128x32xf32>) {
  %0 = aten.new_zeros(%x, size = [161, 32], dtype = f32) : (tensor<128x32xf32>) -> tensor<161x32xf32>
  return
}

// CHECK-LABEL: @new_zeros_2(
// CHECK: aten.new_zeros(%{{.*}}, size = []) : (tensor<2x32x32xf32>) -> tensor<f32>
func.func @new_zeros_2(%x: tensor<2x32x32xf32>) {
  %0 = aten.new_zeros(%x, size = []) : (tensor<2x32x32xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @new_ones(
// CHECK: aten.new_ones(%{{.*}}, size = [16], dtype = i1) : (tensor<16xi64>) -> tensor<16xi1>
func.func @new_ones(%x: tensor<16xi64>) {
  %0 = aten.new_ones(%x, size = [16], dtype = i1) : (tensor<16xi64>) -> tensor<16xi1>
  return
}

// CHECK-LABEL: @new_full(
// CHECK: aten.new_full(%{{.*}}, size = [2], fill_value = 5.000000e-01) : (tensor<4xi64>) -> tensor<2xi64>
func.func @new_full(%x: tensor<4xi64>) {
  %0 = aten.new_full(%x, size = [2], fill_value = 0.5) : (tensor<4xi64>) -> tensor<2xi64>
  return
}

// CHECK-LABEL: @empty_memory_format(
// CHECK: aten.empty_memory_format(size = [4, 8], dtype = f32) : () -> tensor<4x8xf32>
func.func @empty_memory_format() {
  %0 = aten.empty_memory_format(size = [4, 8], dtype = f32) : () -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @empty_like(
// CHECK: aten.empty_like(%{{.*}}, dtype = f64, memory_format = "contiguous_format") : (tensor<4x8xf32>) -> tensor<4x8xf64>
func.func @empty_like(%x: tensor<4x8xf32>) {
  %0 = aten.empty_like(%x, dtype = f64, memory_format = "contiguous_format") : (tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// CHECK-LABEL: @zero(
// CHECK: aten.zero(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @zero(%x: tensor<4x8xf32>) {
  %0 = aten.zero(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @fill_scalar(
// CHECK: aten.fill_scalar(%{{.*}}, value = 3) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @fill_scalar(%x: tensor<4x8xf32>) {
  %0 = aten.fill_scalar(%x, value = 3) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @new_empty_strided(
// CHECK: aten.new_empty_strided(%{{.*}}, size = [2, 4], stride = [1, 2]) : (tensor<4x8xf32>) -> tensor<2x4xf32>
func.func @new_empty_strided(%x: tensor<4x8xf32>) {
  %0 = aten.new_empty_strided(%x, size = [2, 4], stride = [1, 2]) : (tensor<4x8xf32>) -> tensor<2x4xf32>
  return
}
