// Convolution and its gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @convolution(
// CHECK: aten.convolution(%{{.*}}, %{{.*}}, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<2x128x4x4xf32>, tensor<128x128x3x3xf32>) -> tensor<2x128x4x4xf32>
func.func @convolution(%x: tensor<2x128x4x4xf32>, %w: tensor<128x128x3x3xf32>) {
  %0 = aten.convolution(%x, %w, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<2x128x4x4xf32>, tensor<128x128x3x3xf32>) -> tensor<2x128x4x4xf32>
  return
}

// CHECK-LABEL: @convolution_2(
// CHECK: aten.convolution(%{{.*}}, %{{.*}}, %{{.*}}, stride = [2, 2], padding = [3, 3], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<2x3x32x32xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<2x64x16x16xf32>
func.func @convolution_2(%x: tensor<2x3x32x32xf32>, %w: tensor<64x3x7x7xf32>, %b: tensor<64xf32>) {
  %0 = aten.convolution(%x, %w, %b, stride = [2, 2], padding = [3, 3], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<2x3x32x32xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<2x64x16x16xf32>
  return
}

// CHECK-LABEL: @convolution_3(
// CHECK: aten.convolution(%{{.*}}, %{{.*}}, %{{.*}}, stride = [2], padding = [0], dilation = [2], transposed = false, output_padding = [0], groups = 2) : (tensor<2x4x16xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<2x6x6xf32>
func.func @convolution_3(%x: tensor<2x4x16xf32>, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>) {
  %0 = aten.convolution(%x, %w, %b, stride = [2], padding = [0], dilation = [2], transposed = false, output_padding = [0], groups = 2) : (tensor<2x4x16xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<2x6x6xf32>
  return
}

// CHECK-LABEL: @convolution_4(
// CHECK: aten.convolution(%{{.*}}, %{{.*}}, none, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = true, output_padding = [1, 1], groups = 2) : (tensor<2x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x6x10x10xf32>
func.func @convolution_4(%x: tensor<2x4x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  %0 = aten.convolution(%x, %w, none, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = true, output_padding = [1, 1], groups = 2) : (tensor<2x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<2x6x10x10xf32>
  return
}

// CHECK-LABEL: @convolution_5(
// CHECK: aten.convolution(%{{.*}}, %{{.*}}, none, stride = [1], padding = [1], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<1x2x4x4x4xf32>, tensor<3x2x3x3x3xf32>) -> tensor<1x3x4x4x4xf32>
func.func @convolution_5(%x: tensor<1x2x4x4x4xf32>, %w: tensor<3x2x3x3x3xf32>) {
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [1], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<1x2x4x4x4xf32>, tensor<3x2x3x3x3xf32>) -> tensor<1x3x4x4x4xf32>
  return
}

// CHECK-LABEL: @convolution_backward(
// CHECK: aten.convolution_backward(%{{.*}}, %{{.*}}, %{{.*}}, bias_sizes = [0], stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [true, true, false]) : (tensor<2x512x1x1xf32>, tensor<2x256x2x2xf32>, tensor<512x256x1x1xf32>) -> (tensor<2x256x2x2xf32>, tensor<512x256x1x1xf32>, none)
func.func @convolution_backward(%g: tensor<2x512x1x1xf32>, %x: tensor<2x256x2x2xf32>, %w: tensor<512x256x1x1xf32>) {
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [2, 2], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [true, true, false]) : (tensor<2x512x1x1xf32>, tensor<2x256x2x2xf32>, tensor<512x256x1x1xf32>) -> (tensor<2x256x2x2xf32>, tensor<512x256x1x1xf32>, none)
  return
}

// CHECK-LABEL: @convolution_backward_2(
// CHECK: aten.convolution_backward(%{{.*}}, %{{.*}}, %{{.*}}, bias_sizes = [64], stride = [2, 2], padding = [3, 3], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [false, true, true]) : (tensor<2x64x16x16xf32>, tensor<2x3x32x32xf32>, tensor<64x3x7x7xf32>) -> (none, tensor<64x3x7x7xf32>, tensor<64xf32>)
func.func @convolution_backward_2(%g: tensor<2x64x16x16xf32>, %x: tensor<2x3x32x32xf32>, %w: tensor<64x3x7x7xf32>) {
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [64], stride = [2, 2], padding = [3, 3], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [false, true, true]) : (tensor<2x64x16x16xf32>, tensor<2x3x32x32xf32>, tensor<64x3x7x7xf32>) -> (none, tensor<64x3x7x7xf32>, tensor<64xf32>)
  return
}
