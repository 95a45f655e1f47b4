// Activation functions: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @relu(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' op expects a result of type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0 = aten.relu(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @relu_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @sigmoid(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.sigmoid' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.sigmoid(%x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @gelu(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.gelu' op expects `self` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten.gelu(%x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @gelu_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.gelu' op expects `approximate` to be "none" or "tanh", found "erf"}}
  %0 = aten.gelu(%x, approximate = "erf") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @gelu_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.gelu' op expects a result of type 'tensor<4xf32>', found 'tensor<8xf32>'}}
  %0 = aten.gelu(%x) : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @gelu_backward(%g: tensor<5xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.gelu_backward' op expects `grad_output` of shape [4], found 'tensor<5xf32>'}}
  %0 = aten.gelu_backward(%g, %x) : (tensor<5xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @gelu_backward_2(%g: tensor<4xf64>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.gelu_backward' op expects `grad_output` to have the dtype of `self`, 'f32', found 'tensor<4xf64>'}}
  %0 = aten.gelu_backward(%g, %x) : (tensor<4xf64>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @silu_backward(%g: tensor<3xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.silu_backward' op expects operands whose shapes broadcast, found 'tensor<3xf32>' and 'tensor<4xf32>'}}
  %0 = aten.silu_backward(%g, %x) : (tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @threshold_backward(%g: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.threshold_backward' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.threshold_backward(%g, %x, threshold = 0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @threshold_backward_2(%g: tensor<4xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.threshold_backward' op requires attribute 'threshold'}}
  %0 = aten.threshold_backward(%g, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @softplus(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.softplus' op expects a result of type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0 = aten.softplus(%x, beta = 2.0) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @leaky_relu_backward(%g: tensor<3xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.leaky_relu_backward' op expects operands whose shapes broadcast, found 'tensor<3xf32>' and 'tensor<4xf32>'}}
  %0 = aten.leaky_relu_backward(%g, %x, negative_slope = 0.1, self_is_result = false) : (tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @elu(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.elu' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.elu(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @log_sigmoid(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.log_sigmoid_forward' op expects `self` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0:2 = aten.log_sigmoid_forward(%x) : (tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>)
  return
}

// -----

func.func @log_sigmoid_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.log_sigmoid_forward' op expects result 1 of type 'tensor<4xf32>', found 'tensor<0xf32>'}}
  %0:2 = aten.log_sigmoid_forward(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<0xf32>)
  return
}

// -----

func.func @prelu(%x: tensor<4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'aten._prelu_kernel' op expects a result of type 'tensor<4xf32>', found 'tensor<1xf32>'}}
  %0 = aten._prelu_kernel(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @prelu_backward(%g: tensor<5xf32>, %x: tensor<4xf32>, %w: tensor<1xf32>) {
  // expected-error @+1 {{'aten._prelu_kernel_backward' op expects `grad_output` of shape [4], found 'tensor<5xf32>'}}
  %0:2 = aten._prelu_kernel_backward(%g, %x, %w) : (tensor<5xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @prelu_backward_2(%g: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'aten._prelu_kernel_backward' op expects a `weight` that broadcasts to the shape of `self`, found 'tensor<3xf32>' and 'tensor<4xf32>'}}
  %0:2 = aten._prelu_kernel_backward(%g, %x, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @prelu_backward_3(%g: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<1xf32>) {
  // expected-error @+1 {{'aten._prelu_kernel_backward' op expects result 1 of type 'tensor<4xf32>', found 'tensor<1xf32>'}}
  %0:2 = aten._prelu_kernel_backward(%g, %x, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> (tensor<4xf32>, tensor<1xf32>)
  return
}

// -----

func.func @glu(%x: tensor<4x5xf32>) {
  // expected-error @+1 {{'aten.glu' op expects a dimension of even size, found 5 in 'tensor<4x5xf32>'}}
  %0 = aten.glu(%x) : (tensor<4x5xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @glu_2(%x: tensor<f32>) {
  // expected-error @+1 {{'aten.glu' op expects `self` of at least one dimension, found 'tensor<f32>'}}
  %0 = aten.glu(%x) : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @glu_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.glu' op expects a result of type 'tensor<4x4xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.glu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @glu_backward(%g: tensor<2x8xf32>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.glu_backward' op expects `grad_output` of shape [4, 4], found 'tensor<2x8xf32>'}}
  %0 = aten.glu_backward(%g, %x, dim = 1) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @glu_backward_2(%g: tensor<4x4xf64>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.glu_backward' op expects `grad_output` to have the dtype of `self`, 'f32', found 'tensor<4x4xf64>'}}
  %0 = aten.glu_backward(%g, %x, dim = 1) : (tensor<4x4xf64>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
