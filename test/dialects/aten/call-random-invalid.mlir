// Operators that draw from the global generator are refused: their numbers would depend on what ran
// before them.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @attention_with_dropout(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  // expected-error @+1 {{calls 'aten::_scaled_dot_product_flash_attention_for_cpu', which draws from the global generator}}
  %0:2 = aten.call "aten::_scaled_dot_product_flash_attention_for_cpu"(query = %q, key = %q, value = %q, dropout_p = 0.5)
      : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x2x4x8xf32>
}

// -----

func.func @bernoulli(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{calls 'aten::bernoulli.p', which draws from the global generator; use an aten.rng_* op}}
  %0 = aten.call "aten::bernoulli.p"(self = %x, p = 0.5) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
