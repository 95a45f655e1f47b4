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
