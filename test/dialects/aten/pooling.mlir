// Pooling over windows of images: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @max_pool2d_with_indices(
// CHECK: aten.max_pool2d_with_indices(%{{.*}}, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]) : (tensor<2x64x16x16xf32>) -> (tensor<2x64x8x8xf32>, tensor<2x64x8x8xi64>)
func.func @max_pool2d_with_indices(%x: tensor<2x64x16x16xf32>) {
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]) : (tensor<2x64x16x16xf32>) -> (tensor<2x64x8x8xf32>, tensor<2x64x8x8xi64>)
  return
}

// CHECK-LABEL: @max_pool2d_with_indices_2(
// CHECK: aten.max_pool2d_with_indices(%{{.*}}, kernel_size = [2]) : (tensor<3x7x8xf32>) -> (tensor<3x3x4xf32>, tensor<3x3x4xi64>)
func.func @max_pool2d_with_indices_2(%x: tensor<3x7x8xf32>) {
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [2]) : (tensor<3x7x8xf32>) -> (tensor<3x3x4xf32>, tensor<3x3x4xi64>)
  return
}

// CHECK-LABEL: @max_pool2d_with_indices_3(
// CHECK: aten.max_pool2d_with_indices(%{{.*}}, kernel_size = [2, 3], stride = [], ceil_mode = true) : (tensor<1x3x7x8xf32>) -> (tensor<1x3x4x3xf32>, tensor<1x3x4x3xi64>)
func.func @max_pool2d_with_indices_3(%x: tensor<1x3x7x8xf32>) {
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [2, 3], stride = [], ceil_mode = true) : (tensor<1x3x7x8xf32>) -> (tensor<1x3x4x3xf32>, tensor<1x3x4x3xi64>)
  return
}

// CHECK-LABEL: @max_pool2d_with_indices_4(
// CHECK: aten.max_pool2d_with_indices(%{{.*}}, kernel_size = [3], stride = [2], padding = [1], dilation = [2], ceil_mode = true) : (tensor<1x3x9x10xf32>) -> (tensor<1x3x4x5xf32>, tensor<1x3x4x5xi64>)
func.func @max_pool2d_with_indices_4(%x: tensor<1x3x9x10xf32>) {
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3], stride = [2], padding = [1], dilation = [2], ceil_mode = true) : (tensor<1x3x9x10xf32>) -> (tensor<1x3x4x5xf32>, tensor<1x3x4x5xi64>)
  return
}

// CHECK-LABEL: @max_pool2d_with_indices_backward(
// CHECK: aten.max_pool2d_with_indices_backward(%{{.*}}, %{{.*}}, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1], dilation = [1, 1], ceil_mode = false, %{{.*}}) : (tensor<2x64x8x8xf32>, tensor<2x64x16x16xf32>, tensor<2x64x8x8xi64>) -> tensor<2x64x16x16xf32>
func.func @max_pool2d_with_indices_backward(%g: tensor<2x64x8x8xf32>, %x: tensor<2x64x16x16xf32>, %i: tensor<2x64x8x8xi64>) {
  %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1], dilation = [1, 1], ceil_mode = false, %i) : (tensor<2x64x8x8xf32>, tensor<2x64x16x16xf32>, tensor<2x64x8x8xi64>) -> tensor<2x64x16x16xf32>
  return
}

// CHECK-LABEL: @_adaptive_avg_pool2d(
// CHECK: aten._adaptive_avg_pool2d(%{{.*}}, output_size = [2, 3]) : (tensor<4x7x7xf32>) -> tensor<4x2x3xf32>
func.func @_adaptive_avg_pool2d(%x: tensor<4x7x7xf32>) {
  %0 = aten._adaptive_avg_pool2d(%x, output_size = [2, 3]) : (tensor<4x7x7xf32>) -> tensor<4x2x3xf32>
  return
}

// CHECK-LABEL: @_adaptive_avg_pool2d_backward(
// CHECK: aten._adaptive_avg_pool2d_backward(%{{.*}}, %{{.*}}) : (tensor<2x4x2x2xf32>, tensor<2x4x7x7xf32>) -> tensor<2x4x7x7xf32>
func.func @_adaptive_avg_pool2d_backward(%g: tensor<2x4x2x2xf32>, %x: tensor<2x4x7x7xf32>) {
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<2x4x2x2xf32>, tensor<2x4x7x7xf32>) -> tensor<2x4x7x7xf32>
  return
}

// CHECK-LABEL: @avg_pool2d(
// CHECK: aten.avg_pool2d(%{{.*}}, kernel_size = [2, 2], padding = [1, 0], count_include_pad = false) : (tensor<2x4x6x6xf32>) -> tensor<2x4x4x3xf32>
func.func @avg_pool2d(%x: tensor<2x4x6x6xf32>) {
  %0 = aten.avg_pool2d(%x, kernel_size = [2, 2], padding = [1, 0], count_include_pad = false) : (tensor<2x4x6x6xf32>) -> tensor<2x4x4x3xf32>
  return
}

// CHECK-LABEL: @avg_pool2d_divisor(
// CHECK: aten.avg_pool2d(%{{.*}}, kernel_size = [2, 2], stride = [2, 2], divisor_override = 3) : (tensor<2x4x6x6xf32>) -> tensor<2x4x3x3xf32>
func.func @avg_pool2d_divisor(%x: tensor<2x4x6x6xf32>) {
  %0 = aten.avg_pool2d(%x, kernel_size = [2, 2], stride = [2, 2], divisor_override = 3) : (tensor<2x4x6x6xf32>) -> tensor<2x4x3x3xf32>
  return
}

// CHECK-LABEL: @avg_pool2d_backward(
// CHECK: aten.avg_pool2d_backward(%{{.*}}, %{{.*}}, kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], ceil_mode = false, count_include_pad = true) : (tensor<2x4x3x3xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
func.func @avg_pool2d_backward(%g: tensor<2x4x3x3xf32>, %x: tensor<2x4x6x6xf32>) {
  %0 = aten.avg_pool2d_backward(%g, %x, kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], ceil_mode = false, count_include_pad = true) : (tensor<2x4x3x3xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  return
}

// CHECK-LABEL: @im2col(
// CHECK: aten.im2col(%{{.*}}, kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<2x4x8x8xf32>) -> tensor<2x24x12xf32>
func.func @im2col(%a: tensor<2x4x8x8xf32>) {
  %0 = aten.im2col(%a, kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<2x4x8x8xf32>) -> tensor<2x24x12xf32>
  return
}

// CHECK-LABEL: @im2col_unbatched(
// CHECK: aten.im2col(%{{.*}}, kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<4x8x8xf32>) -> tensor<24x12xf32>
func.func @im2col_unbatched(%a: tensor<4x8x8xf32>) {
  %0 = aten.im2col(%a, kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<4x8x8xf32>) -> tensor<24x12xf32>
  return
}

// CHECK-LABEL: @col2im(
// CHECK: aten.col2im(%{{.*}}, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<2x24x12xf32>) -> tensor<2x4x8x8xf32>
func.func @col2im(%a: tensor<2x24x12xf32>) {
  %0 = aten.col2im(%a, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<2x24x12xf32>) -> tensor<2x4x8x8xf32>
  return
}

// CHECK-LABEL: @col2im_unbatched(
// CHECK: aten.col2im(%{{.*}}, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<24x12xf32>) -> tensor<4x8x8xf32>
func.func @col2im_unbatched(%a: tensor<24x12xf32>) {
  %0 = aten.col2im(%a, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 2], padding = [1, 0], stride = [2, 2]) : (tensor<24x12xf32>) -> tensor<4x8x8xf32>
  return
}
