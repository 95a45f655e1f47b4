// Complex numbers and Fourier transforms: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @view_as_complex(%x: tensor<4x2xf16>) {
  // expected-error @+1 {{'aten.view_as_complex' op expects `self` to have dtype f32 or f64, found 'tensor<4x2xf16>'}}
  %0 = aten.view_as_complex(%x) : (tensor<4x2xf16>) -> tensor<4xcomplex<f32>>
  return
}

// -----

func.func @view_as_complex_2(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{'aten.view_as_complex' op expects a last dimension of size 2, found 'tensor<4x3xf32>'}}
  %0 = aten.view_as_complex(%x) : (tensor<4x3xf32>) -> tensor<4xcomplex<f32>>
  return
}

// -----

func.func @view_as_complex_3(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{'aten.view_as_complex' op expects a result of type 'tensor<4xcomplex<f32>>', found 'tensor<4xcomplex<f64>>'}}
  %0 = aten.view_as_complex(%x) : (tensor<4x2xf32>) -> tensor<4xcomplex<f64>>
  return
}

// -----

func.func @view_as_real(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view_as_real' op expects `self` to have a complex dtype, found 'tensor<4xf32>'}}
  %0 = aten.view_as_real(%x) : (tensor<4xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @view_as_real_2(%x: tensor<4xcomplex<f32>>) {
  // expected-error @+1 {{'aten.view_as_real' op expects a result of type 'tensor<4x2xf32>', found 'tensor<2x4xf32>'}}
  %0 = aten.view_as_real(%x) : (tensor<4xcomplex<f32>>) -> tensor<2x4xf32>
  return
}

// -----

func.func @complex(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{'aten.complex' op expects `imag` to have the dtype of `real`, 'f32', found 'tensor<4xf64>'}}
  %0 = aten.complex(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xcomplex<f64>>
  return
}

// -----

func.func @polar(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.polar' op expects a result of type 'tensor<4xcomplex<f32>>', found 'tensor<4xf32>'}}
  %0 = aten.polar(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @conj_physical(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.conj_physical' op expects `self` to have a complex dtype, found 'tensor<4xf32>'}}
  %0 = aten.conj_physical(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @fft_c2c(%z: tensor<4xcomplex<f32>>) {
  // expected-error @+1 {{'aten._fft_c2c' op expects `normalization` 0 (none), 1 (by the root of n) or 2 (by n), found 3}}
  %0 = aten._fft_c2c(%z, dim = [0], normalization = 3, forward = true) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  return
}

// -----

func.func @fft_c2c_2(%z: tensor<4x2xcomplex<f32>>) {
  // expected-error @+1 {{'aten._fft_c2c' op expects dimensions counted from the front in `dim`, found [-1]}}
  %0 = aten._fft_c2c(%z, dim = [-1], normalization = 0, forward = true) : (tensor<4x2xcomplex<f32>>) -> tensor<4x2xcomplex<f32>>
  return
}

// -----

func.func @fft_r2c(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten._fft_r2c' op expects at least one dimension in `dim`}}
  %0 = aten._fft_r2c(%x, dim = [], normalization = 0, onesided = true) : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
  return
}

// -----

func.func @fft_r2c_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten._fft_r2c' op expects a result of type 'tensor<4x5xcomplex<f32>>', found 'tensor<4x8xcomplex<f32>>'}}
  %0 = aten._fft_r2c(%x, dim = [1], normalization = 0, onesided = true) : (tensor<4x8xf32>) -> tensor<4x8xcomplex<f32>>
  return
}

// -----

func.func @fft_r2c_3(%x: tensor<4x0xf32>) {
  // expected-error @+1 {{'aten._fft_r2c' op expects elements to transform, found 'tensor<4x0xf32>'}}
  %0 = aten._fft_r2c(%x, dim = [1], normalization = 0, onesided = true) : (tensor<4x0xf32>) -> tensor<4x1xcomplex<f32>>
  return
}

// -----

func.func @fft_c2r(%z: tensor<4x8xcomplex<f32>>) {
  // expected-error @+1 {{'aten._fft_c2r' op expects size 5 in the last of `dim`, found 'tensor<4x8xcomplex<f32>>'}}
  %0 = aten._fft_c2r(%z, dim = [1], normalization = 0, last_dim_size = 8) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fft_c2r_2(%z: tensor<4x1xcomplex<f32>>) {
  // expected-error @+1 {{'aten._fft_c2r' op expects `last_dim_size` of at least 1, found 0}}
  %0 = aten._fft_c2r(%z, dim = [1], normalization = 0, last_dim_size = 0) : (tensor<4x1xcomplex<f32>>) -> tensor<4x0xf32>
  return
}

// -----

// Half precision has no complex numbers.
func.func @half(%z: tensor<4xcomplex<f16>>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of a dtype, but got 'tensor<4xcomplex<f16>>'}}
  %0 = aten.neg(%z) : (tensor<4xcomplex<f16>>) -> tensor<4xcomplex<f16>>
  return
}

// -----

func.func @norm(%z: tensor<4xcomplex<f32>>) {
  // expected-error @+1 {{'aten.linalg_vector_norm' op expects a result of type 'tensor<f32>', found 'tensor<complex<f32>>'}}
  %0 = aten.linalg_vector_norm(%z) : (tensor<4xcomplex<f32>>) -> tensor<complex<f32>>
  return
}

// -----

func.func @arange() {
  // expected-error @+1 {{'aten.arange' op expects real numbers, found #aten.complex<1.000000e+00 : f64, 0.000000e+00 : f64>}}
  %0 = aten.arange(end = #aten.complex<1.0, 0.0>) : () -> tensor<1xf32>
  return
}

// -----

func.func @part(%x: tensor<4xf32>) {
  // expected-error @+1 {{expects parts of type f64, found 1.000000e+00 : f32}}
  %0 = aten.mul_scalar(%x, other = #aten.complex<1.0 : f32, 0.0>) : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]

func.func @maximum(%z: tensor<4xcomplex<f32>>) {
  // expected-error @+1 {{cannot reduce values of type 'tensor<4xcomplex<f32>>' by 'max', which takes real numbers}}
  %0 = dist.all_reduce max(%z) over @mesh ["dp"] : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
  return
}

// -----

// expected-error @+1 {{expects complex members only where its element type is complex, found tensor<4xcomplex<f32>> for "a" in a bucket of 'f32'}}
train.bucket @bucket of f32 ["a" : tensor<4xcomplex<f32>>]
