// Ops whose results share the memory of their operand: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @alias(
// CHECK: aten.alias(%{{.*}}) : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
func.func @alias(%x: tensor<2x16x32xf32>) {
  %0 = aten.alias(%x) : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  return
}

// CHECK-LABEL: @detach(
// CHECK: aten.detach(%{{.*}}) : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16>
func.func @detach(%x: tensor<2x4x32x8xbf16>) {
  %0 = aten.detach(%x) : (tensor<2x4x32x8xbf16>) -> tensor<2x4x32x8xbf16>
  return
}

// CHECK-LABEL: @view(
// CHECK: aten.view(%{{.*}}, size = [64, 32]) : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
func.func @view(%x: tensor<2x32x32xf32>) {
  %0 = aten.view(%x, size = [64, 32]) : (tensor<2x32x32xf32>) -> tensor<64x32xf32>
  return
}

// CHECK-LABEL: @view_2(
// CHECK: aten.view(%{{.*}}, size = [-1]) : (tensor<4x8xf32>) -> tensor<32xf32>
func.func @view_2(%x: tensor<4x8xf32>) {
  %0 = aten.view(%x, size = [-1]) : (tensor<4x8xf32>) -> tensor<32xf32>
  return
}

// CHECK-LABEL: @view_3(
// CHECK: aten.view(%{{.*}}, size = []) : (tensor<1x1xf32>) -> tensor<f32>
func.func @view_3(%x: tensor<1x1xf32>) {
  %0 = aten.view(%x, size = []) : (tensor<1x1xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @view_4(
// CHECK: aten.view(%{{.*}}, size = [0, 8]) : (tensor<0x4xf32>) -> tensor<0x8xf32>
func.func @view_4(%x: tensor<0x4xf32>) {
  %0 = aten.view(%x, size = [0, 8]) : (tensor<0x4xf32>) -> tensor<0x8xf32>
  return
}

// CHECK-LABEL: @view_5(
// CHECK: aten.view(%{{.*}}, size = [-1, 4]) : (tensor<0x4xf32>) -> tensor<0x4xf32>
func.func @view_5(%x: tensor<0x4xf32>) {
  %0 = aten.view(%x, size = [-1, 4]) : (tensor<0x4xf32>) -> tensor<0x4xf32>
  return
}

// CHECK-LABEL: @expand(
// CHECK: aten.expand(%{{.*}}, size = [64, 2, 32]) : (tensor<64x1x32xf32>) -> tensor<64x2x32xf32>
func.func @expand(%x: tensor<64x1x32xf32>) {
  %0 = aten.expand(%x, size = [64, 2, 32]) : (tensor<64x1x32xf32>) -> tensor<64x2x32xf32>
  return
}

// CHECK-LABEL: @expand_2(
// CHECK: aten.expand(%{{.*}}, size = [3, -1], implicit = true) : (tensor<4xf32>) -> tensor<3x4xf32>
func.func @expand_2(%x: tensor<4xf32>) {
  %0 = aten.expand(%x, size = [3, -1], implicit = true) : (tensor<4xf32>) -> tensor<3x4xf32>
  return
}

// CHECK-LABEL: @expand_3(
// CHECK: aten.expand(%{{.*}}, size = [2, 3]) : (tensor<f32>) -> tensor<2x3xf32>
func.func @expand_3(%x: tensor<f32>) {
  %0 = aten.expand(%x, size = [2, 3]) : (tensor<f32>) -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: @t(
// CHECK: aten.t(%{{.*}}) : (tensor<128x32xf32>) -> tensor<32x128xf32>
func.func @t(%x: tensor<128x32xf32>) {
  %0 = aten.t(%x) : (tensor<128x32xf32>) -> tensor<32x128xf32>
  return
}

// CHECK-LABEL: @t_2(
// CHECK: aten.t(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
func.func @t_2(%x: tensor<8xf32>) {
  %0 = aten.t(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @transpose(
// CHECK: aten.transpose(%{{.*}}, dim0 = -2, dim1 = -1) : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
func.func @transpose(%x: tensor<2x4x32x8xf32>) {
  %0 = aten.transpose(%x, dim0 = -2, dim1 = -1) : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32>
  return
}

// CHECK-LABEL: @permute(
// CHECK: aten.permute(%{{.*}}, dims = [0, -1, 1]) : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
func.func @permute(%x: tensor<2x4x8xf32>) {
  %0 = aten.permute(%x, dims = [0, -1, 1]) : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  return
}

// CHECK-LABEL: @unsqueeze(
// CHECK: aten.unsqueeze(%{{.*}}, dim = -1) : (tensor<128xi1>) -> tensor<128x1xi1>
func.func @unsqueeze(%x: tensor<128xi1>) {
  %0 = aten.unsqueeze(%x, dim = -1) : (tensor<128xi1>) -> tensor<128x1xi1>
  return
}

// CHECK-LABEL: @unsqueeze_2(
// CHECK: aten.unsqueeze(%{{.*}}, dim = 0) : (tensor<f32>) -> tensor<1xf32>
func.func @unsqueeze_2(%x: tensor<f32>) {
  %0 = aten.unsqueeze(%x, dim = 0) : (tensor<f32>) -> tensor<1xf32>
  return
}

// CHECK-LABEL: @squeeze(
// CHECK: aten.squeeze(%{{.*}}) : (tensor<1x4x1xf32>) -> tensor<4xf32>
func.func @squeeze(%x: tensor<1x4x1xf32>) {
  %0 = aten.squeeze(%x) : (tensor<1x4x1xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @squeeze_dim(
// CHECK: aten.squeeze_dim(%{{.*}}, dim = 2) : (tensor<2x2x1x16x8xf32>) -> tensor<2x2x16x8xf32>
func.func @squeeze_dim(%x: tensor<2x2x1x16x8xf32>) {
  %0 = aten.squeeze_dim(%x, dim = 2) : (tensor<2x2x1x16x8xf32>) -> tensor<2x2x16x8xf32>
  return
}

// CHECK-LABEL: @squeeze_dim_2(
// CHECK: aten.squeeze_dim(%{{.*}}, dim = 0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
func.func @squeeze_dim_2(%x: tensor<2x4xf32>) {
  %0 = aten.squeeze_dim(%x, dim = 0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: @squeeze_dims(
// CHECK: aten.squeeze_dims(%{{.*}}, dim = [0, -1]) : (tensor<1x4x1xf32>) -> tensor<4xf32>
func.func @squeeze_dims(%x: tensor<1x4x1xf32>) {
  %0 = aten.squeeze_dims(%x, dim = [0, -1]) : (tensor<1x4x1xf32>) -> tensor<4xf32>
  return
}
