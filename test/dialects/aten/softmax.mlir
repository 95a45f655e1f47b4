// Softmax, its logarithm and their gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @_softmax(
// CHECK: aten._softmax(%{{.*}}, dim = -1, half_to_float = false) : (tensor<64x4xf32>) -> tensor<64x4xf32>
func.func @_softmax(%x: tensor<64x4xf32>) {
  %0 = aten._softmax(%x, dim = -1, half_to_float = false) : (tensor<64x4xf32>) -> tensor<64x4xf32>
  return
}

// CHECK-LABEL: @_log_softmax(
// CHECK: aten._log_softmax(%{{.*}}, dim = 1, half_to_float = false) : (tensor<64x256xbf16>) -> tensor<64x256xbf16>
func.func @_log_softmax(%x: tensor<64x256xbf16>) {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) : (tensor<64x256xbf16>) -> tensor<64x256xbf16>
  return
}

// CHECK-LABEL: @_softmax_backward_data(
// CHECK: aten._softmax_backward_data(%{{.*}}, %{{.*}}, dim = -1, input_dtype = f32) : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
func.func @_softmax_backward_data(%g: tensor<2x4x16x16xf32>, %y: tensor<2x4x16x16xf32>) {
  %0 = aten._softmax_backward_data(%g, %y, dim = -1, input_dtype = f32) : (tensor<2x4x16x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
  return
}

// CHECK-LABEL: @_log_softmax_backward_data(
// CHECK: aten._log_softmax_backward_data(%{{.*}}, %{{.*}}, dim = 1, input_dtype = f32) : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
func.func @_log_softmax_backward_data(%g: tensor<64x256xf32>, %y: tensor<64x256xf32>) {
  %0 = aten._log_softmax_backward_data(%g, %y, dim = 1, input_dtype = f32) : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  return
}

// CHECK-LABEL: @_safe_softmax(
// CHECK: aten._safe_softmax(%{{.*}}, dim = -1) : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
func.func @_safe_softmax(%x: tensor<2x4x32x32xf32>) {
  %0 = aten._safe_softmax(%x, dim = -1) : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
  return
}

// CHECK-LABEL: @_safe_softmax_2(
// CHECK: aten._safe_softmax(%{{.*}}, dim = -1, dtype = f64) : (tensor<4xf32>) -> tensor<4xf64>
func.func @_safe_softmax_2(%x: tensor<4xf32>) {
  %0 = aten._safe_softmax(%x, dim = -1, dtype = f64) : (tensor<4xf32>) -> tensor<4xf64>
  return
}
