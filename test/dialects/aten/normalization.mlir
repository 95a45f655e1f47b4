// Layer and batch normalization and their gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @native_layer_norm(
// CHECK: aten.native_layer_norm(%{{.*}}, normalized_shape = [384], %{{.*}}, %{{.*}}, eps = 9.9999999999999998E-13) : (tensor<2x12x384xf32>, tensor<384xf32>, tensor<384xf32>) -> (tensor<2x12x384xf32>, tensor<2x12x1xf32>, tensor<2x12x1xf32>)
func.func @native_layer_norm(%x: tensor<2x12x384xf32>, %w: tensor<384xf32>, %b: tensor<384xf32>) {
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [384], %w, %b, eps = 9.9999999999999998E-13) : (tensor<2x12x384xf32>, tensor<384xf32>, tensor<384xf32>) -> (tensor<2x12x384xf32>, tensor<2x12x1xf32>, tensor<2x12x1xf32>)
  return
}

// CHECK-LABEL: @native_layer_norm_2(
// CHECK: aten.native_layer_norm(%{{.*}}, normalized_shape = [4, 8], none, none, eps = 1.000000e-05) : (tensor<2x4x8xf64>) -> (tensor<2x4x8xf64>, tensor<2x1x1xf64>, tensor<2x1x1xf64>)
func.func @native_layer_norm_2(%x: tensor<2x4x8xf64>) {
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [4, 8], none, none, eps = 1.0e-05) : (tensor<2x4x8xf64>) -> (tensor<2x4x8xf64>, tensor<2x1x1xf64>, tensor<2x1x1xf64>)
  return
}

// CHECK-LABEL: @native_layer_norm_3(
// CHECK: aten.native_layer_norm(%{{.*}}, normalized_shape = [8], %{{.*}}, none, eps = 1.000000e-05) : (tensor<2x8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
func.func @native_layer_norm_3(%x: tensor<2x8xf32>, %w: tensor<8xf32>) {
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], %w, none, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// CHECK-LABEL: @native_layer_norm_backward(
// CHECK: aten.native_layer_norm_backward(%{{.*}}, %{{.*}}, normalized_shape = [8], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, output_mask = [true, true, true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>)
func.func @native_layer_norm_backward(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) {
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, %w, %b, output_mask = [true, true, true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// CHECK-LABEL: @native_layer_norm_backward_2(
// CHECK: aten.native_layer_norm_backward(%{{.*}}, %{{.*}}, normalized_shape = [8], %{{.*}}, %{{.*}}, none, none, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, none, none)
func.func @native_layer_norm_backward_2(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>) {
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// CHECK-LABEL: @_native_batch_norm_legit_functional(
// CHECK: aten._native_batch_norm_legit_functional(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, training = true, momentum = 1.000000e-01, eps = 1.000000e-05) : (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
func.func @_native_batch_norm_legit_functional(%x: tensor<2x64x16x16xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>) {
  %0:5 = aten._native_batch_norm_legit_functional(%x, %w, %b, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// CHECK-LABEL: @_native_batch_norm_legit_functional_2(
// CHECK: aten._native_batch_norm_legit_functional(%{{.*}}, none, none, %{{.*}}, %{{.*}}, training = false, momentum = 1.000000e-01, eps = 1.000000e-05) : (tensor<2x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64xf32>, tensor<0xf32>, tensor<0xf32>, tensor<64xf32>, tensor<64xf32>)
func.func @_native_batch_norm_legit_functional_2(%x: tensor<2x64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>) {
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = false, momentum = 0.1, eps = 1.0e-05) : (tensor<2x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64xf32>, tensor<0xf32>, tensor<0xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// CHECK-LABEL: @_native_batch_norm_legit_no_training(
// CHECK: aten._native_batch_norm_legit_no_training(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, momentum = 1.000000e-01, eps = 1.000000e-05) : (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x16x16xf32>, tensor<0xf32>, tensor<0xf32>)
func.func @_native_batch_norm_legit_no_training(%x: tensor<2x64x16x16xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>) {
  %0:3 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %m, %v, momentum = 0.1, eps = 1.0e-05) : (tensor<2x64x16x16xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x16x16xf32>, tensor<0xf32>, tensor<0xf32>)
  return
}

// CHECK-LABEL: @native_batch_norm_backward(
// CHECK: aten.native_batch_norm_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, train = true, eps = 1.000000e-05, output_mask = [true, true, true]) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>)
func.func @native_batch_norm_backward(%g: tensor<2x64x8x8xf32>, %x: tensor<2x64x8x8xf32>, %w: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %s: tensor<64xf32>, %i: tensor<64xf32>) {
  %0:3 = aten.native_batch_norm_backward(%g, %x, %w, %m, %v, %s, %i, train = true, eps = 1.0e-05, output_mask = [true, true, true]) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}

// CHECK-LABEL: @native_batch_norm_backward_2(
// CHECK: aten.native_batch_norm_backward(%{{.*}}, %{{.*}}, none, %{{.*}}, %{{.*}}, none, none, train = false, eps = 1.000000e-05, output_mask = [true, false, false]) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x8x8xf32>, none, none)
func.func @native_batch_norm_backward_2(%g: tensor<2x64x8x8xf32>, %x: tensor<2x64x8x8xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>) {
  %0:3 = aten.native_batch_norm_backward(%g, %x, none, %m, %v, none, none, train = false, eps = 1.0e-05, output_mask = [true, false, false]) : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<2x64x8x8xf32>, none, none)
  return
}

// CHECK-LABEL: @native_group_norm(
// CHECK: aten.native_group_norm(%{{.*}}, %{{.*}}, %{{.*}}, N = 2, C = 8, HxW = 16, group = 4, eps = 5.000000e-01) : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
func.func @native_group_norm(%x: tensor<2x8x4x4xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) {
  %0:3 = aten.native_group_norm(%x, %w, %b, N = 2, C = 8, HxW = 16, group = 4, eps = 0.5) : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// CHECK-LABEL: @native_group_norm_plain(
// CHECK: aten.native_group_norm(%{{.*}}, none, none, N = 2, C = 8, HxW = 1, group = 4, eps = 5.000000e-01) : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
func.func @native_group_norm_plain(%x: tensor<2x8xf32>) {
  %0:3 = aten.native_group_norm(%x, none, none, N = 2, C = 8, HxW = 1, group = 4, eps = 0.5) : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// CHECK-LABEL: @native_group_norm_backward(
// CHECK: aten.native_group_norm_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, true, true]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
func.func @native_group_norm_backward(%g: tensor<2x8x4x4xf32>, %x: tensor<2x8x4x4xf32>, %m: tensor<2x4xf32>, %r: tensor<2x4xf32>, %w: tensor<8xf32>) {
  %0:3 = aten.native_group_norm_backward(%g, %x, %m, %r, %w, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, true, true]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// CHECK-LABEL: @native_group_norm_backward_input(
// CHECK: aten.native_group_norm_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, none, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, false, false]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x8x4x4xf32>, none, none)
func.func @native_group_norm_backward_input(%g: tensor<2x8x4x4xf32>, %x: tensor<2x8x4x4xf32>, %m: tensor<2x4xf32>, %r: tensor<2x4xf32>) {
  %0:3 = aten.native_group_norm_backward(%g, %x, %m, %r, none, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, false, false]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x8x4x4xf32>, none, none)
  return
}
