// Running products, and their gradient: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @cumprod(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.cumprod' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.cumprod(%x, dim = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cumprod_2(%x: tensor<4x8xi1>) {
  // expected-error @+1 {{'aten.cumprod' op expects a result of type 'tensor<4x8xi64>', found 'tensor<4x8xi1>'}}
  %0 = aten.cumprod(%x, dim = 0) : (tensor<4x8xi1>) -> tensor<4x8xi1>
  return
}

// -----

func.func @cumprod_backward(%g: tensor<4x8xi64>, %x: tensor<4x8xi64>) {
  // expected-error @+1 {{'aten.cumprod_backward' op expects `grad` to have a floating-point dtype, found 'tensor<4x8xi64>'}}
  %0 = aten.cumprod_backward(%g, %x, dim = 1, %x) : (tensor<4x8xi64>, tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}

// -----

func.func @cumprod_backward_2(%g: tensor<4x8xf32>, %x: tensor<4x7xf32>) {
  // expected-error @+1 {{'aten.cumprod_backward' op expects `input` of shape [4, 8], found 'tensor<4x7xf32>'}}
  %0 = aten.cumprod_backward(%g, %x, dim = 1, %g) : (tensor<4x8xf32>, tensor<4x7xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cumprod_backward_3(%g: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.cumprod_backward' op expects `dim` in [-2, 1], found -3}}
  %0 = aten.cumprod_backward(%g, %g, dim = -3, %g) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cumprod_backward_4(%g: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.cumprod_backward' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x8xf64>'}}
  %0 = aten.cumprod_backward(%g, %g, dim = 1, %g) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}
