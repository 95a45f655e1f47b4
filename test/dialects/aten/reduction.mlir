// Sums, means, extrema and norms: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @sum(
// CHECK: aten.sum(%{{.*}}) : (tensor<4xf32>) -> tensor<f32>
func.func @sum(%x: tensor<4xf32>) {
  %0 = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @sum_2(
// CHECK: aten.sum(%{{.*}}) : (tensor<4x8xi1>) -> tensor<i64>
func.func @sum_2(%x: tensor<4x8xi1>) {
  %0 = aten.sum(%x) : (tensor<4x8xi1>) -> tensor<i64>
  return
}

// CHECK-LABEL: @sum_3(
// CHECK: aten.sum(%{{.*}}, dtype = f64) : (tensor<4xf32>) -> tensor<f64>
func.func @sum_3(%x: tensor<4xf32>) {
  %0 = aten.sum(%x, dtype = f64) : (tensor<4xf32>) -> tensor<f64>
  return
}

// CHECK-LABEL: @sum_dim_int_list(
// CHECK: aten.sum_dim_int_list(%{{.*}}, dim = [0], keepdim = true) : (tensor<64x32xf32>) -> tensor<1x32xf32>
func.func @sum_dim_int_list(%x: tensor<64x32xf32>) {
  %0 = aten.sum_dim_int_list(%x, dim = [0], keepdim = true) : (tensor<64x32xf32>) -> tensor<1x32xf32>
  return
}

// CHECK-LABEL: @sum_dim_int_list_2(
// CHECK: aten.sum_dim_int_list(%{{.*}}, dim = [-1, 0]) : (tensor<4x8x6xf32>) -> tensor<8xf32>
func.func @sum_dim_int_list_2(%x: tensor<4x8x6xf32>) {
  %0 = aten.sum_dim_int_list(%x, dim = [-1, 0]) : (tensor<4x8x6xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @sum_dim_int_list_3(
// CHECK: aten.sum_dim_int_list(%{{.*}}, keepdim = true) : (tensor<4x8xi32>) -> tensor<1x1xi64>
func.func @sum_dim_int_list_3(%x: tensor<4x8xi32>) {
  %0 = aten.sum_dim_int_list(%x, keepdim = true) : (tensor<4x8xi32>) -> tensor<1x1xi64>
  return
}

// CHECK-LABEL: @sum_dim_int_list_4(
// CHECK: aten.sum_dim_int_list(%{{.*}}, dim = [0, 1]) : (tensor<4x8xf32>) -> tensor<f32>
func.func @sum_dim_int_list_4(%x: tensor<4x8xf32>) {
  %0 = aten.sum_dim_int_list(%x, dim = [0, 1]) : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @mean(
// CHECK: aten.mean(%{{.*}}) : (tensor<4x8xbf16>) -> tensor<bf16>
func.func @mean(%x: tensor<4x8xbf16>) {
  %0 = aten.mean(%x) : (tensor<4x8xbf16>) -> tensor<bf16>
  return
}

// CHECK-LABEL: @mean_2(
// CHECK: aten.mean(%{{.*}}, dtype = f32) : (tensor<4x8xi64>) -> tensor<f32>
func.func @mean_2(%x: tensor<4x8xi64>) {
  %0 = aten.mean(%x, dtype = f32) : (tensor<4x8xi64>) -> tensor<f32>
  return
}

// CHECK-LABEL: @mean_dim(
// CHECK: aten.mean_dim(%{{.*}}, dim = [-1, -2], keepdim = true) : (tensor<2x512x1x1xf32>) -> tensor<2x512x1x1xf32>
func.func @mean_dim(%x: tensor<2x512x1x1xf32>) {
  %0 = aten.mean_dim(%x, dim = [-1, -2], keepdim = true) : (tensor<2x512x1x1xf32>) -> tensor<2x512x1x1xf32>
  return
}

// CHECK-LABEL: @mean_dim_2(
// CHECK: aten.mean_dim(%{{.*}}, dim = [0]) : (tensor<64x4xf32>) -> tensor<4xf32>
func.func @mean_dim_2(%x: tensor<64x4xf32>) {
  %0 = aten.mean_dim(%x, dim = [0]) : (tensor<64x4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @cumsum(
// CHECK: aten.cumsum(%{{.*}}, dim = -1) : (tensor<2x16xi1>) -> tensor<2x16xi64>
func.func @cumsum(%x: tensor<2x16xi1>) {
  %0 = aten.cumsum(%x, dim = -1) : (tensor<2x16xi1>) -> tensor<2x16xi64>
  return
}

// CHECK-LABEL: @cumsum_2(
// CHECK: aten.cumsum(%{{.*}}, dim = 0, dtype = f64) : (tensor<128x4xf32>) -> tensor<128x4xf64>
func.func @cumsum_2(%x: tensor<128x4xf32>) {
  %0 = aten.cumsum(%x, dim = 0, dtype = f64) : (tensor<128x4xf32>) -> tensor<128x4xf64>
  return
}

// CHECK-LABEL: @var_correction(
// CHECK: aten.var_correction(%{{.*}}) : (tensor<4x8xf32>) -> tensor<f32>
func.func @var_correction(%x: tensor<4x8xf32>) {
  %0 = aten.var_correction(%x) : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @var_correction_2(
// CHECK: aten.var_correction(%{{.*}}, dim = [1], correction = 0, keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
func.func @var_correction_2(%x: tensor<4x8xf32>) {
  %0 = aten.var_correction(%x, dim = [1], correction = 0, keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return
}

// CHECK-LABEL: @linalg_vector_norm(
// CHECK: aten.linalg_vector_norm(%{{.*}}, ord = 2.000000e+00, dim = [-1], keepdim = true) : (tensor<2x384xf32>) -> tensor<2x1xf32>
func.func @linalg_vector_norm(%x: tensor<2x384xf32>) {
  %0 = aten.linalg_vector_norm(%x, ord = 2.0, dim = [-1], keepdim = true) : (tensor<2x384xf32>) -> tensor<2x1xf32>
  return
}

// CHECK-LABEL: @linalg_vector_norm_2(
// CHECK: aten.linalg_vector_norm(%{{.*}}, dtype = f64) : (tensor<4x8xf32>) -> tensor<f64>
func.func @linalg_vector_norm_2(%x: tensor<4x8xf32>) {
  %0 = aten.linalg_vector_norm(%x, dtype = f64) : (tensor<4x8xf32>) -> tensor<f64>
  return
}

// CHECK-LABEL: @amax(
// CHECK: aten.amax(%{{.*}}, dim = [1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
func.func @amax(%x: tensor<4x8xf32>) {
  %0 = aten.amax(%x, dim = [1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return
}

// CHECK-LABEL: @amin(
// CHECK: aten.amin(%{{.*}}) : (tensor<4x8xi64>) -> tensor<i64>
func.func @amin(%x: tensor<4x8xi64>) {
  %0 = aten.amin(%x) : (tensor<4x8xi64>) -> tensor<i64>
  return
}

// CHECK-LABEL: @any(
// CHECK: aten.any(%{{.*}}) : (tensor<4x8xf32>) -> tensor<i1>
func.func @any(%x: tensor<4x8xf32>) {
  %0 = aten.any(%x) : (tensor<4x8xf32>) -> tensor<i1>
  return
}

// CHECK-LABEL: @all(
// CHECK: aten.all(%{{.*}}) : (tensor<4xui8>) -> tensor<ui8>
func.func @all(%x: tensor<4xui8>) {
  %0 = aten.all(%x) : (tensor<4xui8>) -> tensor<ui8>
  return
}

// CHECK-LABEL: @argmax(
// CHECK: aten.argmax(%{{.*}}) : (tensor<4x8xf32>) -> tensor<i64>
func.func @argmax(%x: tensor<4x8xf32>) {
  %0 = aten.argmax(%x) : (tensor<4x8xf32>) -> tensor<i64>
  return
}

// CHECK-LABEL: @argmax_2(
// CHECK: aten.argmax(%{{.*}}, dim = 0, keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xi64>
func.func @argmax_2(%x: tensor<4x8xf32>) {
  %0 = aten.argmax(%x, dim = 0, keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xi64>
  return
}

// CHECK-LABEL: @logsumexp(
// CHECK: aten.logsumexp(%{{.*}}, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
func.func @logsumexp(%x: tensor<4x8xf32>) {
  %0 = aten.logsumexp(%x, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
  return
}

// CHECK-LABEL: @logsumexp_all(
// CHECK: aten.logsumexp(%{{.*}}, dim = [0, 1]) : (tensor<4x8xf32>) -> tensor<f32>
func.func @logsumexp_all(%x: tensor<4x8xf32>) {
  %0 = aten.logsumexp(%x, dim = [0, 1]) : (tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @logsumexp_integers(
// CHECK: aten.logsumexp(%{{.*}}, dim = [0]) : (tensor<4x8xi64>) -> tensor<8xf32>
func.func @logsumexp_integers(%x: tensor<4x8xi64>) {
  %0 = aten.logsumexp(%x, dim = [0]) : (tensor<4x8xi64>) -> tensor<8xf32>
  return
}
