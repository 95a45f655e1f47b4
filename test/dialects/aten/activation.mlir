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

// CHECK-LABEL: @softplus(
// CHECK: aten.softplus(%{{.*}}, beta = 2.000000e+00, threshold = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @softplus(%x: tensor<4x8xf32>) {
  %0 = aten.softplus(%x, beta = 2.0, threshold = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @softplus_default(
// CHECK: aten.softplus(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @softplus_default(%x: tensor<4x8xf32>) {
  %0 = aten.softplus(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @softplus_backward(
// CHECK: aten.softplus_backward(%{{.*}}, %{{.*}}, beta = 2.000000e+00, threshold = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @softplus_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.softplus_backward(%g, %x, beta = 2.0, threshold = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @leaky_relu(
// CHECK: aten.leaky_relu(%{{.*}}, negative_slope = 2.500000e-01) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @leaky_relu(%x: tensor<4x8xf32>) {
  %0 = aten.leaky_relu(%x, negative_slope = 0.25) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @leaky_relu_backward(
// CHECK: aten.leaky_relu_backward(%{{.*}}, %{{.*}}, negative_slope = 2.500000e-01, self_is_result = false) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @leaky_relu_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.leaky_relu_backward(%g, %x, negative_slope = 0.25, self_is_result = false) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @elu(
// CHECK: aten.elu(%{{.*}}, alpha = 1.500000e+00, scale = 1, input_scale = 5.000000e-01) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @elu(%x: tensor<4x8xf32>) {
  %0 = aten.elu(%x, alpha = 1.5, scale = 1, input_scale = 0.5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @elu_backward(
// CHECK: aten.elu_backward(%{{.*}}, alpha = 1.500000e+00, scale = 1, input_scale = 1, is_result = false, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @elu_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.elu_backward(%g, alpha = 1.5, scale = 1, input_scale = 1, is_result = false, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardtanh(
// CHECK: aten.hardtanh(%{{.*}}, min_val = 0, max_val = 6) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
func.func @hardtanh(%x: tensor<4x8xbf16>) {
  %0 = aten.hardtanh(%x, min_val = 0, max_val = 6) : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return
}

// CHECK-LABEL: @hardtanh_backward(
// CHECK: aten.hardtanh_backward(%{{.*}}, %{{.*}}, min_val = -1, max_val = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardtanh_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.hardtanh_backward(%g, %x, min_val = -1, max_val = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @softshrink(
// CHECK: aten.softshrink(%{{.*}}, lambd = 2.500000e-01) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @softshrink(%x: tensor<4x8xf32>) {
  %0 = aten.softshrink(%x, lambd = 0.25) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @softshrink_backward(
// CHECK: aten.softshrink_backward(%{{.*}}, %{{.*}}, lambd = 2.500000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @softshrink_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.softshrink_backward(%g, %x, lambd = 0.25) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @threshold(
// CHECK: aten.threshold(%{{.*}}, threshold = 5.000000e-01, value = 20) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @threshold(%x: tensor<4x8xf32>) {
  %0 = aten.threshold(%x, threshold = 0.5, value = 20) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardswish(
// CHECK: aten.hardswish(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardswish(%x: tensor<4x8xf32>) {
  %0 = aten.hardswish(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardswish_backward(
// CHECK: aten.hardswish_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardswish_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.hardswish_backward(%g, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardsigmoid(
// CHECK: aten.hardsigmoid(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardsigmoid(%x: tensor<4x8xf32>) {
  %0 = aten.hardsigmoid(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardsigmoid_backward(
// CHECK: aten.hardsigmoid_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardsigmoid_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.hardsigmoid_backward(%g, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @mish(
// CHECK: aten.mish(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @mish(%x: tensor<4x8xf32>) {
  %0 = aten.mish(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @mish_backward(
// CHECK: aten.mish_backward(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @mish_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.mish_backward(%g, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @log_sigmoid_forward(
// CHECK: aten.log_sigmoid_forward(%{{.*}}) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
func.func @log_sigmoid_forward(%x: tensor<4x8xf32>) {
  %0:2 = aten.log_sigmoid_forward(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// CHECK-LABEL: @log_sigmoid_backward(
// CHECK: aten.log_sigmoid_backward(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @log_sigmoid_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  %0 = aten.log_sigmoid_backward(%g, %x, %b) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @_prelu_kernel(
// CHECK: aten._prelu_kernel(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
func.func @_prelu_kernel(%x: tensor<4x8xf32>, %w: tensor<1x8xf32>) {
  %0 = aten._prelu_kernel(%x, %w) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @_prelu_kernel_backward(
// CHECK: aten._prelu_kernel_backward(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
func.func @_prelu_kernel_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %w: tensor<1x8xf32>) {
  %0:2 = aten._prelu_kernel_backward(%g, %x, %w) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// CHECK-LABEL: @glu(
// CHECK: aten.glu(%{{.*}}, dim = 0) : (tensor<4x8xf32>) -> tensor<2x8xf32>
func.func @glu(%x: tensor<4x8xf32>) {
  %0 = aten.glu(%x, dim = 0) : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return
}

// CHECK-LABEL: @glu_last(
// CHECK: aten.glu(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x4xf32>
func.func @glu_last(%x: tensor<4x8xf32>) {
  %0 = aten.glu(%x) : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: @glu_backward(
// CHECK: aten.glu_backward(%{{.*}}, %{{.*}}, dim = -1) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @glu_backward(%g: tensor<4x4xf32>, %x: tensor<4x8xf32>) {
  %0 = aten.glu_backward(%g, %x, dim = -1) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @celu(
// CHECK: aten.celu(%{{.*}}, alpha = 1.500000e+00) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @celu(%a: tensor<4x8xf32>) {
  %0 = aten.celu(%a, alpha = 1.5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @celu_default(
// CHECK: aten.celu(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @celu_default(%a: tensor<4x8xf32>) {
  %0 = aten.celu(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardshrink(
// CHECK: aten.hardshrink(%{{.*}}, lambd = 2.500000e-01) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardshrink(%a: tensor<4x8xf32>) {
  %0 = aten.hardshrink(%a, lambd = 0.25) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @hardshrink_backward(
// CHECK: aten.hardshrink_backward(%{{.*}}, %{{.*}}, lambd = 2.500000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @hardshrink_backward(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  %0 = aten.hardshrink_backward(%a, %b, lambd = 0.25) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
