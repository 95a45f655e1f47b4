// Scaled dot-product attention: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @_scaled_dot_product_flash_attention_for_cpu(%q: tensor<4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `query` to have 4 dimensions, found 'tensor<4x16x8xf32>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_2(%q: tensor<2x4x16x8xi64>, %k: tensor<2x4x16x8xi64>, %v: tensor<2x4x16x8xi64>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `query` to have a floating-point dtype, found 'tensor<2x4x16x8xi64>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xi64>, tensor<2x4x16x8xi64>, tensor<2x4x16x8xi64>) -> (tensor<2x4x16x8xi64>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_3(%q: tensor<2x4x16x8xf32>, %k: tensor<2x3x16x8xf32>, %v: tensor<2x3x16x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op cannot attend with `query` to `key`, found 'tensor<2x4x16x8xf32>' and 'tensor<2x3x16x8xf32>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xf32>, tensor<2x3x16x8xf32>, tensor<2x3x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_4(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x12x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `value` of shape [2, 4, 16, 8], found 'tensor<2x4x12x8xf32>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x12x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_5(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf64>, %v: tensor<2x4x16x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `key` to have the dtype of `query`, 'f32', found 'tensor<2x4x16x8xf64>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf64>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_6(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `dropout_p` of 0, found 1.000000e-01}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, dropout_p = 0.1) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_7(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %m: tensor<3x1x16x16xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects `attn_mask` to broadcast to [2, 4, 16, 16], found 'tensor<3x1x16x16xf32>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, %m) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<3x1x16x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_8(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects result 0 of type 'tensor<2x4x16x8xf32>', found 'tensor<2x4x8x16xf32>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x16xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_9(%q: tensor<2x4x16x8xbf16>, %k: tensor<2x4x16x8xbf16>, %v: tensor<2x4x16x8xbf16>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu' op expects result 1 of type 'tensor<2x4x16xf32>', found 'tensor<2x4x16xbf16>'}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16xbf16>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_backward(%g: tensor<2x4x16x4xf32>, %q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %o: tensor<2x4x16x8xf32>, %l: tensor<2x4x16xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu_backward' op expects `grad_out` of shape [2, 4, 16, 8], found 'tensor<2x4x16x4xf32>'}}
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x16x4xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_backward_2(%g: tensor<2x4x16x8xf32>, %q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %o: tensor<2x4x16x8xf32>, %l: tensor<2x16x4xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu_backward' op expects `logsumexp` of shape [2, 4, 16], found 'tensor<2x16x4xf32>'}}
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x16x4xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_backward_3(%g: tensor<2x4x16x8xbf16>, %q: tensor<2x4x16x8xbf16>, %k: tensor<2x4x16x8xbf16>, %v: tensor<2x4x16x8xbf16>, %o: tensor<2x4x16x8xbf16>, %l: tensor<2x4x16xbf16>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu_backward' op expects `logsumexp` of dtype 'f32', found 'tensor<2x4x16xbf16>'}}
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16xbf16>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>)
  return
}

// -----

func.func @_scaled_dot_product_flash_attention_for_cpu_backward_4(%g: tensor<2x4x16x8xf32>, %q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %o: tensor<2x4x16x8xf32>, %l: tensor<2x4x16xf32>) {
  // expected-error @+1 {{'aten._scaled_dot_product_flash_attention_for_cpu_backward' op expects result 2 of type 'tensor<2x4x16x8xf32>', found 'tensor<2x4x16xf32>'}}
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}
