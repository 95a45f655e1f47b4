// Activation functions and their gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @relu(
// CHECK: aten.relu(%{{.*}}) : (tensor<4xi32>) -> tensor<4xi32>
func.func @relu(%x: tensor<4xi32>) {
  %0 = aten.relu(%x) : (tensor<4xi32>) -> tensor<4xi32>
  return
}

// CHECK-LABEL: @silu(
// CHECK: aten.silu(%{{.*}}) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
func.func @silu(%x: tensor<4x8xbf16>) {
  %0 = aten.silu(%x) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return
}

// CHECK-LABEL: @sigmoid(
// CHECK: aten.sigmoid(%{{.*}}) : (tensor<4xi64>) -> tensor<4xf32>
func.func @sigmoid(%x: tensor<4xi64>) {
  %0 = aten.sigmoid(%x) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @tanh(
// CHECK: aten.tanh(%{{.*}}) : (tensor<f64>) -> tensor<f64>
func.func @tanh(%x: tensor<f64>) {
  %0 = aten.tanh(%x) : (tensor<f64>) -> tensor<f64>
  return
}

// CHECK-LABEL: @gelu(
// CHECK: aten.gelu(%{{.*}}) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
func.func @gelu(%x: tensor<4x8xbf16>) {
  %0 = aten.gelu(%x) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return
}

// CHECK-LABEL: @gelu_2(
// CHECK: aten.gelu(%{{.*}}, approximate = "tanh") : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @gelu_2(%x: tensor<4x8xf32>) {
  %0 = aten.gelu(%x, approximate = "tanh") : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @gelu_backward(
// CHECK: aten.gelu_backward(%{{.*}}, %{{.*}}, approximate = "none") : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
func.func @gelu_backward(%g: tensor<4xf64>, %x: tensor<4xf64>) {
  %0 = aten.gelu_backward(%g, %x, approximate = "none") : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return
}

// CHECK-LABEL: @silu_backward(
// CHECK: aten.silu_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @silu_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.silu_backward(%g, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @sigmoid_backward(
// CHECK: aten.sigmoid_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @sigmoid_backward(%g: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %0 = aten.sigmoid_backward(%g, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @tanh_backward(
// CHECK: aten.tanh_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @tanh_backward(%g: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %0 = aten.tanh_backward(%g, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @threshold_backward(
// CHECK: aten.threshold_backward(%{{.*}}, %{{.*}}, threshold = 0) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>) -> tensor<2x64x8x8xf32>
func.func @threshold_backward(%g: tensor<2x64x8x8xf32>, %x: tensor<2x64x8x8xf32>) {
  %0 = aten.threshold_backward(%g, %x, threshold = 0) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>) -> tensor<2x64x8x8xf32>
  return
}
