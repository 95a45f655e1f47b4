// Slices, selections and splits, and their gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @slice(
// CHECK: aten.slice(%{{.*}}, dim = 0, start = 0, end = -1) : (tensor<161x32xf32>) -> tensor<160x32xf32>
func.func @slice(%x: tensor<161x32xf32>) {
  %0 = aten.slice(%x, dim = 0, start = 0, end = -1) : (tensor<161x32xf32>) -> tensor<160x32xf32>
  return
}

// CHECK-LABEL: @slice_2(
// CHECK: aten.slice(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @slice_2(%x: tensor<4x8xf32>) {
  %0 = aten.slice(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @slice_3(
// CHECK: aten.slice(%{{.*}}, dim = -1, start = 4, end = 9223372036854775807) : (tensor<2x8xf32>) -> tensor<2x4xf32>
func.func @slice_3(%x: tensor<2x8xf32>) {
  %0 = aten.slice(%x, dim = -1, start = 4, end = 9223372036854775807) : (tensor<2x8xf32>) -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: @slice_4(
// CHECK: aten.slice(%{{.*}}, start = 1, end = 8, step = 3) : (tensor<8xf32>) -> tensor<3xf32>
func.func @slice_4(%x: tensor<8xf32>) {
  %0 = aten.slice(%x, start = 1, end = 8, step = 3) : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// CHECK-LABEL: @slice_5(
// CHECK: aten.slice(%{{.*}}, start = 6, end = 2) : (tensor<8xf32>) -> tensor<0xf32>
func.func @slice_5(%x: tensor<8xf32>) {
  %0 = aten.slice(%x, start = 6, end = 2) : (tensor<8xf32>) -> tensor<0xf32>
  return
}

// CHECK-LABEL: @slice_6(
// CHECK: aten.slice(%{{.*}}, start = -100, end = 100) : (tensor<8xf32>) -> tensor<8xf32>
func.func @slice_6(%x: tensor<8xf32>) {
  %0 = aten.slice(%x, start = -100, end = 100) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @select(
// CHECK: aten.select(%{{.*}}, dim = 0, index = -1) : (tensor<4x8xf32>) -> tensor<8xf32>
func.func @select(%x: tensor<4x8xf32>) {
  %0 = aten.select(%x, dim = 0, index = -1) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @split(
// CHECK: aten.split(%{{.*}}, split_size = 32, dim = 2) : (tensor<2x32x96xbf16>) -> (tensor<2x32x32xbf16>, tensor<2x32x32xbf16>, tensor<2x32x32xbf16>)
func.func @split(%x: tensor<2x32x96xbf16>) {
  %0:3 = aten.split(%x, split_size = 32, dim = 2) : (tensor<2x32x96xbf16>) -> (tensor<2x32x32xbf16>, tensor<2x32x32xbf16>, tensor<2x32x32xbf16>)
  return
}

// CHECK-LABEL: @split_2(
// CHECK: aten.split(%{{.*}}, split_size = 3) : (tensor<4x8xf32>) -> (tensor<3x8xf32>, tensor<1x8xf32>)
func.func @split_2(%x: tensor<4x8xf32>) {
  %0:2 = aten.split(%x, split_size = 3) : (tensor<4x8xf32>) -> (tensor<3x8xf32>, tensor<1x8xf32>)
  return
}

// CHECK-LABEL: @split_3(
// CHECK: aten.split(%{{.*}}, split_size = 9) : (tensor<0x8xf32>) -> tensor<0x8xf32>
func.func @split_3(%x: tensor<0x8xf32>) {
  %0 = aten.split(%x, split_size = 9) : (tensor<0x8xf32>) -> tensor<0x8xf32>
  return
}

// CHECK-LABEL: @split_with_sizes(
// CHECK: aten.split_with_sizes(%{{.*}}, split_sizes = [1, 0, 3]) : (tensor<4xf32>) -> (tensor<1xf32>, tensor<0xf32>, tensor<3xf32>)
func.func @split_with_sizes(%x: tensor<4xf32>) {
  %0:3 = aten.split_with_sizes(%x, split_sizes = [1, 0, 3]) : (tensor<4xf32>) -> (tensor<1xf32>, tensor<0xf32>, tensor<3xf32>)
  return
}

// CHECK-LABEL: @unbind(
// CHECK: aten.unbind(%{{.*}}, dim = -1) : (tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @unbind(%x: tensor<4x2xf32>) {
  %0:2 = aten.unbind(%x, dim = -1) : (tensor<4x2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: @slice_backward(
// CHECK: aten.slice_backward(%{{.*}}, input_sizes = [161, 32], dim = 0, start = 0, end = -1, step = 1) : (tensor<160x32xf32>) -> tensor<161x32xf32>
func.func @slice_backward(%g: tensor<160x32xf32>) {
  %0 = aten.slice_backward(%g, input_sizes = [161, 32], dim = 0, start = 0, end = -1, step = 1) : (tensor<160x32xf32>) -> tensor<161x32xf32>
  return
}

// CHECK-LABEL: @slice_backward_2(
// CHECK: aten.slice_backward(%{{.*}}, input_sizes = [2, 2, 16, 8], dim = 3, start = 4, end = 9223372036854775807, step = 1) : (tensor<2x2x16x4xf32>) -> tensor<2x2x16x8xf32>
func.func @slice_backward_2(%g: tensor<2x2x16x4xf32>) {
  %0 = aten.slice_backward(%g, input_sizes = [2, 2, 16, 8], dim = 3, start = 4, end = 9223372036854775807, step = 1) : (tensor<2x2x16x4xf32>) -> tensor<2x2x16x8xf32>
  return
}

// CHECK-LABEL: @select_backward(
// CHECK: aten.select_backward(%{{.*}}, input_sizes = [4, 8], dim = -1, index = 7) : (tensor<4xf32>) -> tensor<4x8xf32>
func.func @select_backward(%g: tensor<4xf32>) {
  %0 = aten.select_backward(%g, input_sizes = [4, 8], dim = -1, index = 7) : (tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @slice_scatter(
// CHECK: aten.slice_scatter(%{{.*}}, %{{.*}}, dim = 1, start = 2, end = -1) : (tensor<4x8xf32>, tensor<4x5xf32>) -> tensor<4x8xf32>
func.func @slice_scatter(%x: tensor<4x8xf32>, %y: tensor<4x5xf32>) {
  %0 = aten.slice_scatter(%x, %y, dim = 1, start = 2, end = -1) : (tensor<4x8xf32>, tensor<4x5xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @slice_scatter_all(
// CHECK: aten.slice_scatter(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @slice_scatter_all(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %0 = aten.slice_scatter(%x, %y) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @select_scatter(
// CHECK: aten.select_scatter(%{{.*}}, %{{.*}}, dim = -1, index = 0) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
func.func @select_scatter(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  %0 = aten.select_scatter(%x, %y, dim = -1, index = 0) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @constant_pad_nd(
// CHECK: aten.constant_pad_nd(%{{.*}}, pad = [1, -2, 0, 3], value = 5.000000e-01) : (tensor<4x8xf32>) -> tensor<7x7xf32>
func.func @constant_pad_nd(%x: tensor<4x8xf32>) {
  %0 = aten.constant_pad_nd(%x, pad = [1, -2, 0, 3], value = 0.5) : (tensor<4x8xf32>) -> tensor<7x7xf32>
  return
}

// CHECK-LABEL: @constant_pad_nd_zero(
// CHECK: aten.constant_pad_nd(%{{.*}}, pad = [1, 2]) : (tensor<4x8xf32>) -> tensor<4x11xf32>
func.func @constant_pad_nd_zero(%x: tensor<4x8xf32>) {
  %0 = aten.constant_pad_nd(%x, pad = [1, 2]) : (tensor<4x8xf32>) -> tensor<4x11xf32>
  return
}
