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

// CHECK-LABEL: @huber_loss_1(
// CHECK: aten.huber_loss(%{{.*}}, %{{.*}}, reduction = 1, delta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @huber_loss_1(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss(%x, %t, reduction = 1, delta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @huber_loss_backward_1(
// CHECK: aten.huber_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 1, delta = 5.000000e-01) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @huber_loss_backward_1(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss_backward(%g, %x, %t, reduction = 1, delta = 0.5) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @huber_loss_0(
// CHECK: aten.huber_loss(%{{.*}}, %{{.*}}, reduction = 0, delta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @huber_loss_0(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss(%x, %t, reduction = 0, delta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @huber_loss_backward_0(
// CHECK: aten.huber_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, delta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @huber_loss_backward_0(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss_backward(%g, %x, %t, reduction = 0, delta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @huber_loss_2(
// CHECK: aten.huber_loss(%{{.*}}, %{{.*}}, reduction = 2, delta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @huber_loss_2(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss(%x, %t, reduction = 2, delta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @huber_loss_backward_2(
// CHECK: aten.huber_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 2, delta = 5.000000e-01) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @huber_loss_backward_2(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.huber_loss_backward(%g, %x, %t, reduction = 2, delta = 0.5) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_1(
// CHECK: aten.smooth_l1_loss(%{{.*}}, %{{.*}}, reduction = 1, beta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @smooth_l1_loss_1(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss(%x, %t, reduction = 1, beta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_backward_1(
// CHECK: aten.smooth_l1_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 1, beta = 5.000000e-01) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @smooth_l1_loss_backward_1(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss_backward(%g, %x, %t, reduction = 1, beta = 0.5) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_0(
// CHECK: aten.smooth_l1_loss(%{{.*}}, %{{.*}}, reduction = 0, beta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @smooth_l1_loss_0(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss(%x, %t, reduction = 0, beta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_backward_0(
// CHECK: aten.smooth_l1_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, beta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @smooth_l1_loss_backward_0(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss_backward(%g, %x, %t, reduction = 0, beta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_2(
// CHECK: aten.smooth_l1_loss(%{{.*}}, %{{.*}}, reduction = 2, beta = 5.000000e-01) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @smooth_l1_loss_2(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss(%x, %t, reduction = 2, beta = 0.5) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @smooth_l1_loss_backward_2(
// CHECK: aten.smooth_l1_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 2, beta = 5.000000e-01) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @smooth_l1_loss_backward_2(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.smooth_l1_loss_backward(%g, %x, %t, reduction = 2, beta = 0.5) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @soft_margin_loss_1(
// CHECK: aten.soft_margin_loss(%{{.*}}, %{{.*}}, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @soft_margin_loss_1(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss(%x, %t, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @soft_margin_loss_backward_1(
// CHECK: aten.soft_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 1) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @soft_margin_loss_backward_1(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss_backward(%g, %x, %t, reduction = 1) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @soft_margin_loss_0(
// CHECK: aten.soft_margin_loss(%{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @soft_margin_loss_0(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss(%x, %t, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @soft_margin_loss_backward_0(
// CHECK: aten.soft_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @soft_margin_loss_backward_0(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss_backward(%g, %x, %t, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @soft_margin_loss_2(
// CHECK: aten.soft_margin_loss(%{{.*}}, %{{.*}}, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @soft_margin_loss_2(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss(%x, %t, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @soft_margin_loss_backward_2(
// CHECK: aten.soft_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 2) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @soft_margin_loss_backward_2(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.soft_margin_loss_backward(%g, %x, %t, reduction = 2) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_1(
// CHECK: aten.binary_cross_entropy(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>
func.func @binary_cross_entropy_1(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy(%x, %t, %w, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_backward_1(
// CHECK: aten.binary_cross_entropy_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 1) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @binary_cross_entropy_backward_1(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy_backward(%g, %x, %t, %w, reduction = 1) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_0(
// CHECK: aten.binary_cross_entropy(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @binary_cross_entropy_0(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy(%x, %t, %w, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_backward_0(
// CHECK: aten.binary_cross_entropy_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @binary_cross_entropy_backward_0(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy_backward(%g, %x, %t, %w, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_2(
// CHECK: aten.binary_cross_entropy(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>
func.func @binary_cross_entropy_2(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy(%x, %t, %w, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_backward_2(
// CHECK: aten.binary_cross_entropy_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 2) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @binary_cross_entropy_backward_2(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %0 = aten.binary_cross_entropy_backward(%g, %x, %t, %w, reduction = 2) : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_with_logits_1(
// CHECK: aten.binary_cross_entropy_with_logits(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @binary_cross_entropy_with_logits_1(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>, %p: tensor<4x8xf32>) {
  %0 = aten.binary_cross_entropy_with_logits(%x, %t, %w, %p, reduction = 1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_with_logits_0(
// CHECK: aten.binary_cross_entropy_with_logits(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @binary_cross_entropy_with_logits_0(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>, %p: tensor<4x8xf32>) {
  %0 = aten.binary_cross_entropy_with_logits(%x, %t, %w, %p, reduction = 0) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_with_logits_2(
// CHECK: aten.binary_cross_entropy_with_logits(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @binary_cross_entropy_with_logits_2(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>, %w: tensor<8xf32>, %p: tensor<4x8xf32>) {
  %0 = aten.binary_cross_entropy_with_logits(%x, %t, %w, %p, reduction = 2) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @binary_cross_entropy_with_logits_plain(
// CHECK: aten.binary_cross_entropy_with_logits(%{{.*}}, %{{.*}}, none, none) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
func.func @binary_cross_entropy_with_logits_plain(%x: tensor<4x8xf32>, %t: tensor<4x8xf32>) {
  %0 = aten.binary_cross_entropy_with_logits(%x, %t, none, none) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @nll_loss2d_forward(
// CHECK: aten.nll_loss2d_forward(%{{.*}}, %{{.*}}, none, reduction = 1, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)
func.func @nll_loss2d_forward(%a: tensor<2x8x4x6xf32>, %b: tensor<2x4x6xi64>) {
  %0:2 = aten.nll_loss2d_forward(%a, %b, none, reduction = 1, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// CHECK-LABEL: @nll_loss2d_backward(
// CHECK: aten.nll_loss2d_backward(%{{.*}}, %{{.*}}, %{{.*}}, none, reduction = 1, ignore_index = 3, %{{.*}}) : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
func.func @nll_loss2d_backward(%a: tensor<f32>, %b: tensor<2x8x4x6xf32>, %c: tensor<2x4x6xi64>, %d: tensor<f32>) {
  %0 = aten.nll_loss2d_backward(%a, %b, %c, none, reduction = 1, ignore_index = 3, %d) : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
  return
}

// CHECK-LABEL: @nll_loss2d_forward_2(
// CHECK: aten.nll_loss2d_forward(%{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<8xf32>) -> (tensor<2x4x6xf32>, tensor<f32>)
func.func @nll_loss2d_forward_2(%a: tensor<2x8x4x6xf32>, %b: tensor<2x4x6xi64>, %c: tensor<8xf32>) {
  %0:2 = aten.nll_loss2d_forward(%a, %b, %c, reduction = 0, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<8xf32>) -> (tensor<2x4x6xf32>, tensor<f32>)
  return
}

// CHECK-LABEL: @nll_loss2d_backward_2(
// CHECK: aten.nll_loss2d_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, reduction = 0, ignore_index = 3, %{{.*}}) : (tensor<2x4x6xf32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<8xf32>, tensor<f32>) -> tensor<2x8x4x6xf32>
func.func @nll_loss2d_backward_2(%a: tensor<2x4x6xf32>, %b: tensor<2x8x4x6xf32>, %c: tensor<2x4x6xi64>, %d: tensor<8xf32>, %e: tensor<f32>) {
  %0 = aten.nll_loss2d_backward(%a, %b, %c, %d, reduction = 0, ignore_index = 3, %e) : (tensor<2x4x6xf32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<8xf32>, tensor<f32>) -> tensor<2x8x4x6xf32>
  return
}

// CHECK-LABEL: @nll_loss2d_forward_3(
// CHECK: aten.nll_loss2d_forward(%{{.*}}, %{{.*}}, none, reduction = 2, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)
func.func @nll_loss2d_forward_3(%a: tensor<2x8x4x6xf32>, %b: tensor<2x4x6xi64>) {
  %0:2 = aten.nll_loss2d_forward(%a, %b, none, reduction = 2, ignore_index = 3) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// CHECK-LABEL: @nll_loss2d_backward_3(
// CHECK: aten.nll_loss2d_backward(%{{.*}}, %{{.*}}, %{{.*}}, none, reduction = 2, ignore_index = 3, %{{.*}}) : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
func.func @nll_loss2d_backward_3(%a: tensor<f32>, %b: tensor<2x8x4x6xf32>, %c: tensor<2x4x6xi64>, %d: tensor<f32>) {
  %0 = aten.nll_loss2d_backward(%a, %b, %c, none, reduction = 2, ignore_index = 3, %d) : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
  return
}

// CHECK-LABEL: @multi_margin_loss(
// CHECK: aten.multi_margin_loss(%{{.*}}, %{{.*}}, p = 1, margin = 7.500000e-01, none, reduction = 1) : (tensor<4x8xf64>, tensor<4xi64>) -> tensor<f64>
func.func @multi_margin_loss(%a: tensor<4x8xf64>, %b: tensor<4xi64>) {
  %0 = aten.multi_margin_loss(%a, %b, p = 1, margin = 0.75, none, reduction = 1) : (tensor<4x8xf64>, tensor<4xi64>) -> tensor<f64>
  return
}

// CHECK-LABEL: @multi_margin_loss_backward(
// CHECK: aten.multi_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, p = 1, margin = 7.500000e-01, none, reduction = 1) : (tensor<f64>, tensor<4x8xf64>, tensor<4xi64>) -> tensor<4x8xf64>
func.func @multi_margin_loss_backward(%a: tensor<f64>, %b: tensor<4x8xf64>, %c: tensor<4xi64>) {
  %0 = aten.multi_margin_loss_backward(%a, %b, %c, p = 1, margin = 0.75, none, reduction = 1) : (tensor<f64>, tensor<4x8xf64>, tensor<4xi64>) -> tensor<4x8xf64>
  return
}

// CHECK-LABEL: @multi_margin_loss_2(
// CHECK: aten.multi_margin_loss(%{{.*}}, %{{.*}}, p = 2, margin = 7.500000e-01, %{{.*}}, reduction = 0) : (tensor<4x8xf64>, tensor<4xi64>, tensor<8xf64>) -> tensor<4xf64>
func.func @multi_margin_loss_2(%a: tensor<4x8xf64>, %b: tensor<4xi64>, %c: tensor<8xf64>) {
  %0 = aten.multi_margin_loss(%a, %b, p = 2, margin = 0.75, %c, reduction = 0) : (tensor<4x8xf64>, tensor<4xi64>, tensor<8xf64>) -> tensor<4xf64>
  return
}

// CHECK-LABEL: @multi_margin_loss_backward_2(
// CHECK: aten.multi_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, p = 2, margin = 7.500000e-01, %{{.*}}, reduction = 0) : (tensor<4xf64>, tensor<4x8xf64>, tensor<4xi64>, tensor<8xf64>) -> tensor<4x8xf64>
func.func @multi_margin_loss_backward_2(%a: tensor<4xf64>, %b: tensor<4x8xf64>, %c: tensor<4xi64>, %d: tensor<8xf64>) {
  %0 = aten.multi_margin_loss_backward(%a, %b, %c, p = 2, margin = 0.75, %d, reduction = 0) : (tensor<4xf64>, tensor<4x8xf64>, tensor<4xi64>, tensor<8xf64>) -> tensor<4x8xf64>
  return
}

// CHECK-LABEL: @multi_margin_loss_3(
// CHECK: aten.multi_margin_loss(%{{.*}}, %{{.*}}, p = 2, margin = 7.500000e-01, none, reduction = 2) : (tensor<4x8xf64>, tensor<4xi64>) -> tensor<f64>
func.func @multi_margin_loss_3(%a: tensor<4x8xf64>, %b: tensor<4xi64>) {
  %0 = aten.multi_margin_loss(%a, %b, p = 2, margin = 0.75, none, reduction = 2) : (tensor<4x8xf64>, tensor<4xi64>) -> tensor<f64>
  return
}

// CHECK-LABEL: @multi_margin_loss_backward_3(
// CHECK: aten.multi_margin_loss_backward(%{{.*}}, %{{.*}}, %{{.*}}, p = 2, margin = 7.500000e-01, none, reduction = 2) : (tensor<f64>, tensor<4x8xf64>, tensor<4xi64>) -> tensor<4x8xf64>
func.func @multi_margin_loss_backward_3(%a: tensor<f64>, %b: tensor<4x8xf64>, %c: tensor<4xi64>) {
  %0 = aten.multi_margin_loss_backward(%a, %b, %c, p = 2, margin = 0.75, none, reduction = 2) : (tensor<f64>, tensor<4x8xf64>, tensor<4xi64>) -> tensor<4x8xf64>
  return
}

// CHECK-LABEL: @multi_margin_loss_4(
// CHECK: aten.multi_margin_loss(%{{.*}}, %{{.*}}, none, reduction = 0) : (tensor<8xf32>, tensor<1xi64>) -> tensor<1xf32>
func.func @multi_margin_loss_4(%a: tensor<8xf32>, %b: tensor<1xi64>) {
  %0 = aten.multi_margin_loss(%a, %b, none, reduction = 0) : (tensor<8xf32>, tensor<1xi64>) -> tensor<1xf32>
  return
}

// CHECK-LABEL: @multi_margin_loss_5(
// CHECK: aten.multi_margin_loss(%{{.*}}, %{{.*}}, none) : (tensor<8xf32>, tensor<i64>) -> tensor<f32>
func.func @multi_margin_loss_5(%a: tensor<8xf32>, %b: tensor<i64>) {
  %0 = aten.multi_margin_loss(%a, %b, none) : (tensor<8xf32>, tensor<i64>) -> tensor<f32>
  return
}
