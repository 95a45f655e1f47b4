// Losses and their gradients: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @nll_loss_forward(
// CHECK: aten.nll_loss_forward(%{{.*}}, %{{.*}}, none, reduction = 1, ignore_index = -100) : (tensor<64x256xf32>, tensor<64xi64>) -> (tensor<f32>, tensor<f32>)
func.func @nll_loss_forward(%x: tensor<64x256xf32>, %t: tensor<64xi64>) {
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<64x256xf32>, tensor<64xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// CHECK-LABEL: @nll_loss_forward_2(
// CHECK: aten.nll_loss_forward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>) -> (tensor<4xf32>, tensor<f32>)
func.func @nll_loss_forward_2(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8xf32>) {
  %0:2 = aten.nll_loss_forward(%x, %t, %w, reduction = 0, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>) -> (tensor<4xf32>, tensor<f32>)
  return
}

// CHECK-LABEL: @nll_loss_forward_3(
// CHECK: aten.nll_loss_forward(%{{.*}}, %{{.*}}, none, reduction = 2, ignore_index = 0) : (tensor<8xf64>, tensor<i64>) -> (tensor<f64>, tensor<f64>)
func.func @nll_loss_forward_3(%x: tensor<8xf64>, %t: tensor<i64>) {
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 2, ignore_index = 0) : (tensor<8xf64>, tensor<i64>) -> (tensor<f64>, tensor<f64>)
  return
}

// CHECK-LABEL: @nll_loss_backward(
// CHECK: aten.nll_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, none, reduction = 1, ignore_index = -100, %{{.*}}) : (tensor<f32>, tensor<64x256xf32>, tensor<64xi64>, tensor<f32>) -> tensor<64x256xf32>
func.func @nll_loss_backward(%g: tensor<f32>, %x: tensor<64x256xf32>, %t: tensor<64xi64>, %n: tensor<f32>) {
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<f32>, tensor<64x256xf32>, tensor<64xi64>, tensor<f32>) -> tensor<64x256xf32>
  return
}

// CHECK-LABEL: @nll_loss_backward_2(
// CHECK: aten.nll_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, ignore_index = -100, %{{.*}}) : (tensor<4xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>, tensor<f32>) -> tensor<4x8xf32>
func.func @nll_loss_backward_2(%g: tensor<4xf32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8xf32>, %n: tensor<f32>) {
  %0 = aten.nll_loss_backward(%g, %x, %t, %w, reduction = 0, ignore_index = -100, %n) : (tensor<4xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @mse_loss(
// CHECK: aten.mse_loss(%{{.*}}, %{{.*}}) : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
func.func @mse_loss(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = aten.mse_loss(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @mse_loss_2(
// CHECK: aten.mse_loss(%{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @mse_loss_2(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.mse_loss(%a, %b, reduction = 0) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @mse_loss_backward(
// CHECK: aten.mse_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 1) : (tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
func.func @mse_loss_backward(%g: tensor<f32>, %a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = aten.mse_loss_backward(%g, %a, %b, reduction = 1) : (tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
