// Softmax, its logarithm and their gradients: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @_softmax(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten._softmax' op expects `self` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten._softmax(%x, dim = -1, half_to_float = false) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @_softmax_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._softmax' op expects `self` of dtype f16 where `half_to_float` holds, found 'tensor<4xf32>'}}
  %0 = aten._softmax(%x, dim = -1, half_to_float = true) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_softmax_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._softmax' op expects `dim` in [-1, 0], found 1}}
  %0 = aten._softmax(%x, dim = 1, half_to_float = false) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_log_softmax(%x: tensor<4xf16>) {
  // expected-error @+1 {{'aten._log_softmax' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf16>'}}
  %0 = aten._log_softmax(%x, dim = 0, half_to_float = true) : (tensor<4xf16>) -> tensor<4xf16>
  return
}

// -----

func.func @_log_softmax_2(%x: tensor<4xf16>) {
  // expected-error @+1 {{'aten._log_softmax' op requires attribute 'half_to_float'}}
  %0 = aten._log_softmax(%x, dim = 0) : (tensor<4xf16>) -> tensor<4xf16>
  return
}

// -----

func.func @_softmax_backward_data(%g: tensor<5xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten._softmax_backward_data' op expects `grad_output` of shape [4], found 'tensor<5xf32>'}}
  %0 = aten._softmax_backward_data(%g, %y, dim = 0, input_dtype = f32) : (tensor<5xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_softmax_backward_data_2(%g: tensor<4xf64>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten._softmax_backward_data' op expects `grad_output` to have the dtype of `output`, 'f32', found 'tensor<4xf64>'}}
  %0 = aten._softmax_backward_data(%g, %y, dim = 0, input_dtype = f32) : (tensor<4xf64>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_softmax_backward_data_3(%g: tensor<4xi64>, %y: tensor<4xi64>) {
  // expected-error @+1 {{'aten._softmax_backward_data' op expects `output` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten._softmax_backward_data(%g, %y, dim = 0, input_dtype = f32) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @_log_softmax_backward_data(%g: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten._log_softmax_backward_data' op expects `dim` in [-1, 0], found 3}}
  %0 = aten._log_softmax_backward_data(%g, %y, dim = 3, input_dtype = f32) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_log_softmax_backward_data_2(%g: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten._log_softmax_backward_data' op expects `input_dtype` to be a PyTorch dtype, found 'index'}}
  %0 = aten._log_softmax_backward_data(%g, %y, dim = 0, input_dtype = index) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_log_softmax_backward_data_3(%g: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten._log_softmax_backward_data' op expects a result of type 'tensor<4xf16>', found 'tensor<4xf32>'}}
  %0 = aten._log_softmax_backward_data(%g, %y, dim = 0, input_dtype = f16) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_safe_softmax(%x: tensor<4xi1>) {
  // expected-error @+1 {{'aten._safe_softmax' op expects `self` to have a floating-point dtype, found 'tensor<4xi1>'}}
  %0 = aten._safe_softmax(%x, dim = 0) : (tensor<4xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @_safe_softmax_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._safe_softmax' op expects a floating-point `dtype`, found 'i64'}}
  %0 = aten._safe_softmax(%x, dim = 0, dtype = i64) : (tensor<4xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @_safe_softmax_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._safe_softmax' op expects `dim` in [-1, 0], found 2}}
  %0 = aten._safe_softmax(%x, dim = 2) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_safe_softmax_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._safe_softmax' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten._safe_softmax(%x, dim = 0) : (tensor<4xf32>) -> tensor<4xf64>
  return
}
