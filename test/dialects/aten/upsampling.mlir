// Images in another resolution: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @upsample_nearest1d(
// CHECK: aten.upsample_nearest1d(%{{.*}}, output_size = [6]) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @upsample_nearest1d(%a: tensor<2x3x4xf32>) {
  %0 = aten.upsample_nearest1d(%a, output_size = [6]) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @upsample_nearest1d_backward(
// CHECK: aten.upsample_nearest1d_backward(%{{.*}}, output_size = [6], input_size = [2, 3, 4]) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
func.func @upsample_nearest1d_backward(%a: tensor<2x3x6xf32>) {
  %0 = aten.upsample_nearest1d_backward(%a, output_size = [6], input_size = [2, 3, 4]) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: @upsample_nearest1d_scaled(
// CHECK: aten.upsample_nearest1d(%{{.*}}, output_size = [6], scales = 1.500000e+00) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @upsample_nearest1d_scaled(%a: tensor<2x3x4xf32>) {
  %0 = aten.upsample_nearest1d(%a, output_size = [6], scales = 1.5) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @upsample_nearest2d(
// CHECK: aten.upsample_nearest2d(%{{.*}}, output_size = [8, 5]) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_nearest2d(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_nearest2d(%a, output_size = [8, 5]) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_nearest2d_backward(
// CHECK: aten.upsample_nearest2d_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3]) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @upsample_nearest2d_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten.upsample_nearest2d_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3]) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @upsample_nearest2d_scaled(
// CHECK: aten.upsample_nearest2d(%{{.*}}, output_size = [8, 5], scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_nearest2d_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_nearest2d(%a, output_size = [8, 5], scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_nearest3d(
// CHECK: aten.upsample_nearest3d(%{{.*}}, output_size = [3, 8, 5]) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @upsample_nearest3d(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten.upsample_nearest3d(%a, output_size = [3, 8, 5]) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_nearest3d_backward(
// CHECK: aten.upsample_nearest3d_backward(%{{.*}}, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3]) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
func.func @upsample_nearest3d_backward(%a: tensor<2x3x3x8x5xf32>) {
  %0 = aten.upsample_nearest3d_backward(%a, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3]) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
  return
}

// CHECK-LABEL: @upsample_nearest3d_scaled(
// CHECK: aten.upsample_nearest3d(%{{.*}}, output_size = [3, 8, 5], scales_d = 1.500000e+00, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @upsample_nearest3d_scaled(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten.upsample_nearest3d(%a, output_size = [3, 8, 5], scales_d = 1.5, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact1d(
// CHECK: aten._upsample_nearest_exact1d(%{{.*}}, output_size = [6]) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @_upsample_nearest_exact1d(%a: tensor<2x3x4xf32>) {
  %0 = aten._upsample_nearest_exact1d(%a, output_size = [6]) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact1d_backward(
// CHECK: aten._upsample_nearest_exact1d_backward(%{{.*}}, output_size = [6], input_size = [2, 3, 4]) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
func.func @_upsample_nearest_exact1d_backward(%a: tensor<2x3x6xf32>) {
  %0 = aten._upsample_nearest_exact1d_backward(%a, output_size = [6], input_size = [2, 3, 4]) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact1d_scaled(
// CHECK: aten._upsample_nearest_exact1d(%{{.*}}, output_size = [6], scales = 1.500000e+00) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @_upsample_nearest_exact1d_scaled(%a: tensor<2x3x4xf32>) {
  %0 = aten._upsample_nearest_exact1d(%a, output_size = [6], scales = 1.5) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact2d(
// CHECK: aten._upsample_nearest_exact2d(%{{.*}}, output_size = [8, 5]) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_nearest_exact2d(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_nearest_exact2d(%a, output_size = [8, 5]) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact2d_backward(
// CHECK: aten._upsample_nearest_exact2d_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3]) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @_upsample_nearest_exact2d_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten._upsample_nearest_exact2d_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3]) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact2d_scaled(
// CHECK: aten._upsample_nearest_exact2d(%{{.*}}, output_size = [8, 5], scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_nearest_exact2d_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_nearest_exact2d(%a, output_size = [8, 5], scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact3d(
// CHECK: aten._upsample_nearest_exact3d(%{{.*}}, output_size = [3, 8, 5]) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @_upsample_nearest_exact3d(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten._upsample_nearest_exact3d(%a, output_size = [3, 8, 5]) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact3d_backward(
// CHECK: aten._upsample_nearest_exact3d_backward(%{{.*}}, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3]) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
func.func @_upsample_nearest_exact3d_backward(%a: tensor<2x3x3x8x5xf32>) {
  %0 = aten._upsample_nearest_exact3d_backward(%a, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3]) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
  return
}

// CHECK-LABEL: @_upsample_nearest_exact3d_scaled(
// CHECK: aten._upsample_nearest_exact3d(%{{.*}}, output_size = [3, 8, 5], scales_d = 1.500000e+00, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @_upsample_nearest_exact3d_scaled(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten._upsample_nearest_exact3d(%a, output_size = [3, 8, 5], scales_d = 1.5, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_linear1d(
// CHECK: aten.upsample_linear1d(%{{.*}}, output_size = [6], align_corners = true) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @upsample_linear1d(%a: tensor<2x3x4xf32>) {
  %0 = aten.upsample_linear1d(%a, output_size = [6], align_corners = true) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @upsample_linear1d_backward(
// CHECK: aten.upsample_linear1d_backward(%{{.*}}, output_size = [6], input_size = [2, 3, 4], align_corners = true) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
func.func @upsample_linear1d_backward(%a: tensor<2x3x6xf32>) {
  %0 = aten.upsample_linear1d_backward(%a, output_size = [6], input_size = [2, 3, 4], align_corners = true) : (tensor<2x3x6xf32>) -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: @upsample_linear1d_scaled(
// CHECK: aten.upsample_linear1d(%{{.*}}, output_size = [6], align_corners = false, scales = 1.500000e+00) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
func.func @upsample_linear1d_scaled(%a: tensor<2x3x4xf32>) {
  %0 = aten.upsample_linear1d(%a, output_size = [6], align_corners = false, scales = 1.5) : (tensor<2x3x4xf32>) -> tensor<2x3x6xf32>
  return
}

// CHECK-LABEL: @upsample_bilinear2d(
// CHECK: aten.upsample_bilinear2d(%{{.*}}, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_bilinear2d(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_bilinear2d(%a, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_bilinear2d_backward(
// CHECK: aten.upsample_bilinear2d_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @upsample_bilinear2d_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten.upsample_bilinear2d_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @upsample_bilinear2d_scaled(
// CHECK: aten.upsample_bilinear2d(%{{.*}}, output_size = [8, 5], align_corners = false, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_bilinear2d_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_bilinear2d(%a, output_size = [8, 5], align_corners = false, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_trilinear3d(
// CHECK: aten.upsample_trilinear3d(%{{.*}}, output_size = [3, 8, 5], align_corners = true) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @upsample_trilinear3d(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten.upsample_trilinear3d(%a, output_size = [3, 8, 5], align_corners = true) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_trilinear3d_backward(
// CHECK: aten.upsample_trilinear3d_backward(%{{.*}}, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3], align_corners = true) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
func.func @upsample_trilinear3d_backward(%a: tensor<2x3x3x8x5xf32>) {
  %0 = aten.upsample_trilinear3d_backward(%a, output_size = [3, 8, 5], input_size = [2, 3, 2, 4, 3], align_corners = true) : (tensor<2x3x3x8x5xf32>) -> tensor<2x3x2x4x3xf32>
  return
}

// CHECK-LABEL: @upsample_trilinear3d_scaled(
// CHECK: aten.upsample_trilinear3d(%{{.*}}, output_size = [3, 8, 5], align_corners = false, scales_d = 1.500000e+00, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
func.func @upsample_trilinear3d_scaled(%a: tensor<2x3x2x4x3xf32>) {
  %0 = aten.upsample_trilinear3d(%a, output_size = [3, 8, 5], align_corners = false, scales_d = 1.5, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x2x4x3xf32>) -> tensor<2x3x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_bicubic2d(
// CHECK: aten.upsample_bicubic2d(%{{.*}}, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_bicubic2d(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_bicubic2d(%a, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @upsample_bicubic2d_backward(
// CHECK: aten.upsample_bicubic2d_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @upsample_bicubic2d_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten.upsample_bicubic2d_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @upsample_bicubic2d_scaled(
// CHECK: aten.upsample_bicubic2d(%{{.*}}, output_size = [8, 5], align_corners = false, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @upsample_bicubic2d_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten.upsample_bicubic2d(%a, output_size = [8, 5], align_corners = false, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_bilinear2d_aa(
// CHECK: aten._upsample_bilinear2d_aa(%{{.*}}, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_bilinear2d_aa(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_bilinear2d_aa(%a, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_bilinear2d_aa_backward(
// CHECK: aten._upsample_bilinear2d_aa_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @_upsample_bilinear2d_aa_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten._upsample_bilinear2d_aa_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @_upsample_bilinear2d_aa_scaled(
// CHECK: aten._upsample_bilinear2d_aa(%{{.*}}, output_size = [8, 5], align_corners = false, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_bilinear2d_aa_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_bilinear2d_aa(%a, output_size = [8, 5], align_corners = false, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_bicubic2d_aa(
// CHECK: aten._upsample_bicubic2d_aa(%{{.*}}, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_bicubic2d_aa(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_bicubic2d_aa(%a, output_size = [8, 5], align_corners = true) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}

// CHECK-LABEL: @_upsample_bicubic2d_aa_backward(
// CHECK: aten._upsample_bicubic2d_aa_backward(%{{.*}}, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
func.func @_upsample_bicubic2d_aa_backward(%a: tensor<2x3x8x5xf32>) {
  %0 = aten._upsample_bicubic2d_aa_backward(%a, output_size = [8, 5], input_size = [2, 3, 4, 3], align_corners = true) : (tensor<2x3x8x5xf32>) -> tensor<2x3x4x3xf32>
  return
}

// CHECK-LABEL: @_upsample_bicubic2d_aa_scaled(
// CHECK: aten._upsample_bicubic2d_aa(%{{.*}}, output_size = [8, 5], align_corners = false, scales_h = 2.000000e+00, scales_w = 1.750000e+00) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
func.func @_upsample_bicubic2d_aa_scaled(%a: tensor<2x3x4x3xf32>) {
  %0 = aten._upsample_bicubic2d_aa(%a, output_size = [8, 5], align_corners = false, scales_h = 2.0, scales_w = 1.75) : (tensor<2x3x4x3xf32>) -> tensor<2x3x8x5xf32>
  return
}
