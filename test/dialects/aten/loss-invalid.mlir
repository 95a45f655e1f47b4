// Losses and their gradients: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @nll_loss_forward(%x: tensor<4x8xi64>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `self` to have a floating-point dtype, found 'tensor<4x8xi64>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<4x8xi64>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_2(%x: tensor<4x8x2xf32>, %t: tensor<4x2xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `self` of one or two dimensions, found 'tensor<4x8x2xf32>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<4x8x2xf32>, tensor<4x2xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_3(%x: tensor<4x8xf32>, %t: tensor<8xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `target` of shape [4], found 'tensor<8xi64>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_4(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `target` to have dtype i64 or ui8, found 'tensor<4xi32>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_5(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `weight` of shape [8], found 'tensor<4xf32>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, %w, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_6(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8xf64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `weight` to have the dtype of `self`, 'f32', found 'tensor<8xf64>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, %w, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_7(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects `reduction` 0 (none), 1 (mean) or 2 (sum), found 3}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 3, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_8(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects result 0 of type 'tensor<4xf32>', found 'tensor<f32>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 0, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss_forward_9(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.nll_loss_forward' op expects result 1 of type 'tensor<f32>', found 'tensor<4xf32>'}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return
}

// -----

func.func @nll_loss_backward(%g: tensor<4xf32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %n: tensor<f32>) {
  // expected-error @+1 {{'aten.nll_loss_backward' op expects `grad_output` of shape [], found 'tensor<4xf32>'}}
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<4xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @nll_loss_backward_2(%g: tensor<f64>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %n: tensor<f32>) {
  // expected-error @+1 {{'aten.nll_loss_backward' op expects `grad_output` to have the dtype of `self`, 'f32', found 'tensor<f64>'}}
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<f64>, tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @nll_loss_backward_3(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %n: tensor<1xf32>) {
  // expected-error @+1 {{'aten.nll_loss_backward' op expects `total_weight` of shape [], found 'tensor<1xf32>'}}
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<1xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @nll_loss_backward_4(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %n: tensor<f64>) {
  // expected-error @+1 {{'aten.nll_loss_backward' op expects `total_weight` to have the dtype of `self`, 'f32', found 'tensor<f64>'}}
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<f64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @nll_loss_backward_5(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %n: tensor<f32>) {
  // expected-error @+1 {{'aten.nll_loss_backward' op expects a result of type 'tensor<4x8xf32>', found 'tensor<8x4xf32>'}}
  %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %n) : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @mse_loss(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'aten.mse_loss' op expects `reduction` 0 (none), 1 (mean) or 2 (sum), found -1}}
  %0 = aten.mse_loss(%a, %b, reduction = -1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func @mse_loss_2(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'aten.mse_loss' op expects operands whose shapes broadcast, found 'tensor<2xf32>' and 'tensor<3xf32>'}}
  %0 = aten.mse_loss(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<f32>
  return
}

// -----

func.func @mse_loss_3(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'aten.mse_loss' op expects a result of type 'tensor<f32>', found 'tensor<2xf32>'}}
  %0 = aten.mse_loss(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @mse_loss_4(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error @+1 {{'aten.mse_loss' op expects a result of type 'tensor<f64>', found 'tensor<f32>'}}
  %0 = aten.mse_loss(%a, %b, reduction = 2) : (tensor<2xf32>, tensor<2xf64>) -> tensor<f32>
  return
}

// -----

func.func @mse_loss_backward(%g: tensor<f32>, %a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'aten.mse_loss_backward' op expects `reduction` 0 (none), 1 (mean) or 2 (sum), found 7}}
  %0 = aten.mse_loss_backward(%g, %a, %b, reduction = 7) : (tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @mse_loss_backward_2(%g: tensor<3xf32>, %a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'aten.mse_loss_backward' op expects operands whose shapes broadcast, found 'tensor<3xf32>' and 'tensor<2xf32>' and 'tensor<2xf32>'}}
  %0 = aten.mse_loss_backward(%g, %a, %b, reduction = 0) : (tensor<3xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @mse_loss_backward_3(%g: tensor<f32>, %a: tensor<2xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'aten.mse_loss_backward' op expects a result of type 'tensor<2xf32>', found 'tensor<f32>'}}
  %0 = aten.mse_loss_backward(%g, %a, %b, reduction = 1) : (tensor<f32>, tensor<2xf32>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

func.func @huber(%x: tensor<4xf32>, %t: tensor<4xf32>) {
  // expected-error @+1 {{'aten.huber_loss' op expects `reduction` 0 (none), 1 (mean) or 2 (sum), found 3}}
  %0 = aten.huber_loss(%x, %t, reduction = 3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @smooth_l1(%x: tensor<4xf32>, %t: tensor<4xf32>) {
  // expected-error @+1 {{'aten.smooth_l1_loss' op expects a result of type 'tensor<f32>', found 'tensor<4xf32>'}}
  %0 = aten.smooth_l1_loss(%x, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @bce(%x: tensor<4xf32>, %t: tensor<3xf32>) {
  // expected-error @+1 {{'aten.binary_cross_entropy' op expects operands whose shapes broadcast, found 'tensor<4xf32>' and 'tensor<3xf32>'}}
  %0 = aten.binary_cross_entropy(%x, %t, none) : (tensor<4xf32>, tensor<3xf32>) -> tensor<f32>
  return
}

// -----

func.func @logits(%x: tensor<4xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'aten.binary_cross_entropy_with_logits' op expects operands whose shapes broadcast, found 'tensor<4xf32>' and 'tensor<4xf32>' and 'tensor<3xf32>'}}
  %0 = aten.binary_cross_entropy_with_logits(%x, %x, none, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<f32>
  return
}

// -----

func.func @soft_margin_backward(%g: tensor<f32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.soft_margin_loss_backward' op expects a result of type 'tensor<4xf32>', found 'tensor<f32>'}}
  %0 = aten.soft_margin_loss_backward(%g, %x, %x, reduction = 1) : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @nll_loss2d_forward(%x: tensor<2x8x4xf32>, %t: tensor<2x4xi64>) {
  // expected-error @+1 {{'aten.nll_loss2d_forward' op expects `self` of four dimensions, found 'tensor<2x8x4xf32>'}}
  %0:2 = aten.nll_loss2d_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<2x8x4xf32>, tensor<2x4xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss2d_forward_2(%x: tensor<2x8x4x6xf32>, %t: tensor<2x8x4xi64>) {
  // expected-error @+1 {{'aten.nll_loss2d_forward' op expects `target` of shape [2, 4, 6], found 'tensor<2x8x4xi64>'}}
  %0:2 = aten.nll_loss2d_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<2x8x4x6xf32>, tensor<2x8x4xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss2d_forward_3(%x: tensor<2x8x4x6xf32>, %t: tensor<2x4x6xui8>) {
  // expected-error @+1 {{'aten.nll_loss2d_forward' op expects `target` to have dtype i64, found 'tensor<2x4x6xui8>'}}
  %0:2 = aten.nll_loss2d_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<2x8x4x6xf32>, tensor<2x4x6xui8>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss2d_forward_4(%x: tensor<2x8x4x6xf32>, %t: tensor<2x4x6xi64>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'aten.nll_loss2d_forward' op expects `weight` of shape [8], found 'tensor<4xf32>'}}
  %0:2 = aten.nll_loss2d_forward(%x, %t, %w, reduction = 1, ignore_index = -100) : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @nll_loss2d_backward(%g: tensor<f32>, %x: tensor<2x8x4x6xf32>, %t: tensor<2x4x6xi64>, %n: tensor<f32>) {
  // expected-error @+1 {{'aten.nll_loss2d_backward' op expects `grad_output` of shape [2, 4, 6], found 'tensor<f32>'}}
  %0 = aten.nll_loss2d_backward(%g, %x, %t, none, reduction = 0, ignore_index = -100, %n) : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
  return
}

// -----

func.func @multi_margin_loss(%x: tensor<2x8x4xf32>, %t: tensor<2x4xi64>) {
  // expected-error @+1 {{'aten.multi_margin_loss' op expects `self` of one or two dimensions, found 'tensor<2x8x4xf32>'}}
  %0 = aten.multi_margin_loss(%x, %t, none) : (tensor<2x8x4xf32>, tensor<2x4xi64>) -> tensor<f32>
  return
}

// -----

func.func @multi_margin_loss_2(%x: tensor<4x8xf32>, %t: tensor<1xi64>) {
  // expected-error @+1 {{'aten.multi_margin_loss' op expects `target` of shape [4], found 'tensor<1xi64>'}}
  %0 = aten.multi_margin_loss(%x, %t, none) : (tensor<4x8xf32>, tensor<1xi64>) -> tensor<f32>
  return
}

// -----

func.func @multi_margin_loss_3(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{'aten.multi_margin_loss' op expects `target` to have dtype i64, found 'tensor<4xi32>'}}
  %0 = aten.multi_margin_loss(%x, %t, none) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32>
  return
}

// -----

func.func @multi_margin_loss_4(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8xf64>) {
  // expected-error @+1 {{'aten.multi_margin_loss' op expects `weight` to have the dtype of `self`, 'f32', found 'tensor<8xf64>'}}
  %0 = aten.multi_margin_loss(%x, %t, %w) : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf64>) -> tensor<f32>
  return
}

// -----

func.func @multi_margin_loss_5(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.multi_margin_loss' op expects `p` to be 1 or 2, found 3 : i64}}
  %0 = aten.multi_margin_loss(%x, %t, p = 3, none) : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @multi_margin_loss_backward(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{'aten.multi_margin_loss_backward' op expects `grad_output` of shape [4], found 'tensor<f32>'}}
  %0 = aten.multi_margin_loss_backward(%g, %x, %t, p = 1, margin = 1, none, reduction = 0) : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return
}
