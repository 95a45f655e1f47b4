// Complex numbers and Fourier transforms: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @pairs(
// CHECK: aten.view_as_complex(%{{.*}}) : (tensor<4x8x2xf32>) -> tensor<4x8xcomplex<f32>>
// CHECK: aten.view_as_real(%{{.*}}) : (tensor<4x8xcomplex<f64>>) -> tensor<4x8x2xf64>
func.func @pairs(%x: tensor<4x8x2xf32>, %z: tensor<4x8xcomplex<f64>>) {
  %0 = aten.view_as_complex(%x) : (tensor<4x8x2xf32>) -> tensor<4x8xcomplex<f32>>
  %1 = aten.view_as_real(%z) : (tensor<4x8xcomplex<f64>>) -> tensor<4x8x2xf64>
  return
}

// CHECK-LABEL: @parts(
// CHECK: aten.complex(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xcomplex<f32>>
// CHECK: aten.polar(%{{.*}}, %{{.*}}) : (tensor<4x1xf64>, tensor<6xf64>) -> tensor<4x6xcomplex<f64>>
// CHECK: aten.conj_physical(%{{.*}}) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
func.func @parts(%a: tensor<4x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xf64>, %d: tensor<6xf64>,
                 %z: tensor<4x8xcomplex<f32>>) {
  %0 = aten.complex(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xcomplex<f32>>
  %1 = aten.polar(%c, %d) : (tensor<4x1xf64>, tensor<6xf64>) -> tensor<4x6xcomplex<f64>>
  %2 = aten.conj_physical(%z) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
  return
}

// CHECK-LABEL: @transforms(
// CHECK: aten._fft_c2c(%{{.*}}, dim = [0, 1], normalization = 0, forward = true)
// CHECK: aten._fft_r2c(%{{.*}}, dim = [1], normalization = 1, onesided = true) : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
// CHECK: aten._fft_r2c(%{{.*}}, dim = [1, 0], normalization = 0, onesided = false) : (tensor<4x8xf32>) -> tensor<4x8xcomplex<f32>>
// CHECK: aten._fft_c2r(%{{.*}}, dim = [1], normalization = 2, last_dim_size = 7) : (tensor<6x4xcomplex<f64>>) -> tensor<6x7xf64>
func.func @transforms(%z: tensor<4x8xcomplex<f32>>, %x: tensor<4x8xf32>, %w: tensor<6x4xcomplex<f64>>) {
  %0 = aten._fft_c2c(%z, dim = [0, 1], normalization = 0, forward = true) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
  %1 = aten._fft_r2c(%x, dim = [1], normalization = 1, onesided = true) : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
  %2 = aten._fft_r2c(%x, dim = [1, 0], normalization = 0, onesided = false) : (tensor<4x8xf32>) -> tensor<4x8xcomplex<f32>>
  %3 = aten._fft_c2r(%w, dim = [1], normalization = 2, last_dim_size = 7) : (tensor<6x4xcomplex<f64>>) -> tensor<6x7xf64>
  return
}

// Promotion and numbers.
// CHECK-LABEL: @arithmetic(
// CHECK: aten.mul_scalar(%{{.*}}, other = #aten.complex<0.000000e+00 : f64, 1.000000e+00 : f64>) : (tensor<4xf64>) -> tensor<4xcomplex<f64>>
// CHECK: aten.add_scalar(%{{.*}}, other = #aten.complex<5.000000e-01 : f64, 0xFFF0000000000000 : f64>) : (tensor<4xi64>) -> tensor<4xcomplex<f32>>
// CHECK: aten.abs(%{{.*}}) : (tensor<4xcomplex<f64>>) -> tensor<4xf64>
func.func @arithmetic(%x: tensor<4xf64>, %n: tensor<4xi64>, %z: tensor<4xcomplex<f64>>, %w: tensor<4xcomplex<f32>>,
                      %s: tensor<complex<f64>>) {
  %0 = aten.mul_scalar(%x, other = #aten.complex<0.0, 1.0>) : (tensor<4xf64>) -> tensor<4xcomplex<f64>>
  %1 = aten.add_scalar(%n, other = #aten.complex<0.5, 0xFFF0000000000000 : f64>) : (tensor<4xi64>) -> tensor<4xcomplex<f32>>
  %2 = aten.mul(%x, %w) : (tensor<4xf64>, tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f64>>
  %3 = aten.add(%w, %s) : (tensor<4xcomplex<f32>>, tensor<complex<f64>>) -> tensor<4xcomplex<f32>>
  %4 = aten.abs(%z) : (tensor<4xcomplex<f64>>) -> tensor<4xf64>
  %5 = aten.sgn(%z) : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
  %6 = aten.div_scalar(%w, other = 2) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %7 = aten.exp(%w) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %8 = aten.mean(%w) : (tensor<4xcomplex<f32>>) -> tensor<complex<f32>>
  %9 = aten.linalg_vector_norm(%z, ord = 2.0) : (tensor<4xcomplex<f64>>) -> tensor<f64>
  %10 = aten._to_copy(%x, dtype = complex<f32>) : (tensor<4xf64>) -> tensor<4xcomplex<f32>>
  %11 = aten.mul(%n, %s) : (tensor<4xi64>, tensor<complex<f64>>) -> tensor<4xcomplex<f64>>
  return
}
