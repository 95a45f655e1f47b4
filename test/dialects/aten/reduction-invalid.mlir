// Sums, means, extrema and norms: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @sum(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.sum' op expects a result of type 'tensor<f32>', found 'tensor<1xf32>'}}
  %0 = aten.sum(%x) : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @sum_2(%x: tensor<4xi1>) {
  // expected-error @+1 {{'aten.sum' op expects a result of type 'tensor<i64>', found 'tensor<i1>'}}
  %0 = aten.sum(%x) : (tensor<4xi1>) -> tensor<i1>
  return
}

// -----

func.func @sum_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.sum' op expects `dtype` to be a PyTorch dtype, found 'i7'}}
  %0 = aten.sum(%x, dtype = i7) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @sum_dim_int_list(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sum_dim_int_list' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.sum_dim_int_list(%x, dim = [2]) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @sum_dim_int_list_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sum_dim_int_list' op lists dimension 0 twice in `dim`}}
  %0 = aten.sum_dim_int_list(%x, dim = [0, -2]) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @sum_dim_int_list_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sum_dim_int_list' op expects a result of type 'tensor<8xf32>', found 'tensor<1x8xf32>'}}
  %0 = aten.sum_dim_int_list(%x, dim = [0]) : (tensor<4x8xf32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @sum_dim_int_list_4(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{'aten.sum_dim_int_list' op expects a result of type 'tensor<1x8xi64>', found 'tensor<1x8xf32>'}}
  %0 = aten.sum_dim_int_list(%x, dim = [0], keepdim = true) : (tensor<4x8xi64>) -> tensor<1x8xf32>
  return
}

// -----

func.func @sum_dim_int_list_5(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{custom op 'aten.sum_dim_int_list' attribute 'dim' failed to satisfy constraint: i64 dense array attribute}}
  %0 = aten.sum_dim_int_list(%x, dim = 0) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @mean(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.mean' op expects a floating-point or complex dtype, found 'i64'}}
  %0 = aten.mean(%x) : (tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @mean_dim(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.mean_dim' op expects a result of type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = aten.mean_dim(%x, dim = [0]) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mean_dim_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.mean_dim' op expects a floating-point or complex dtype, found 'i64'}}
  %0 = aten.mean_dim(%x, dim = [0], dtype = i64) : (tensor<4x8xf32>) -> tensor<8xi64>
  return
}

// -----

func.func @cumsum(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.cumsum' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.cumsum(%x, dim = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cumsum_2(%x: tensor<4x8xi1>) {
  // expected-error @+1 {{'aten.cumsum' op expects a result of type 'tensor<4x8xi64>', found 'tensor<4x8xi1>'}}
  %0 = aten.cumsum(%x, dim = 0) : (tensor<4x8xi1>) -> tensor<4x8xi1>
  return
}

// -----

func.func @var_correction(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{'aten.var_correction' op expects `self` to have a floating-point dtype, found 'tensor<4x8xi64>'}}
  %0 = aten.var_correction(%x, dim = [0]) : (tensor<4x8xi64>) -> tensor<8xf32>
  return
}

// -----

func.func @var_correction_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.var_correction' op expects `dim` in [-2, 1], found 3}}
  %0 = aten.var_correction(%x, dim = [3]) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @var_correction_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.var_correction' op expects a result of type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = aten.var_correction(%x, dim = [0]) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @linalg_vector_norm(%x: tensor<4xi64>) {
  // expected-error @+1 {{'aten.linalg_vector_norm' op expects `self` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten.linalg_vector_norm(%x) : (tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @linalg_vector_norm_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.linalg_vector_norm' op expects a floating-point `dtype`, found 'i64'}}
  %0 = aten.linalg_vector_norm(%x, dtype = i64) : (tensor<4xf32>) -> tensor<i64>
  return
}

// -----

func.func @linalg_vector_norm_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.linalg_vector_norm' op expects `dim` in [-1, 0], found 1}}
  %0 = aten.linalg_vector_norm(%x, dim = [1]) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @linalg_vector_norm_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.linalg_vector_norm' op expects a result of type 'tensor<1xf32>', found 'tensor<f32>'}}
  %0 = aten.linalg_vector_norm(%x, keepdim = true) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @amax(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.amax' op lists dimension 1 twice in `dim`}}
  %0 = aten.amax(%x, dim = [1, 1]) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @amin(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.amin' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.amin(%x, dim = [1]) : (tensor<4x8xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @any(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.any' op expects a result of type 'tensor<i1>', found 'tensor<f32>'}}
  %0 = aten.any(%x) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @all(%x: tensor<4xui8>) {
  // expected-error @+1 {{'aten.all' op expects a result of type 'tensor<ui8>', found 'tensor<i1>'}}
  %0 = aten.all(%x) : (tensor<4xui8>) -> tensor<i1>
  return
}

// -----

func.func @argmax(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.argmax' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.argmax(%x, dim = 2) : (tensor<4x8xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @argmax_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.argmax' op expects a result of type 'tensor<4xi64>', found 'tensor<4xf32>'}}
  %0 = aten.argmax(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @logsumexp(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.logsumexp' op expects a result of type 'tensor<4xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.logsumexp(%x, dim = [1]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @logsumexp_2(%x: tensor<4x8xi64>) {
  // expected-error @+1 {{'aten.logsumexp' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.logsumexp(%x, dim = [1]) : (tensor<4x8xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @logsumexp_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.logsumexp' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.logsumexp(%x, dim = [2]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
