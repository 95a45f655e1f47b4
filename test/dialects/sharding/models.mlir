// The sharding rules of what models are made of: attention, norms, losses, convolutions, indexing.
// RUN: cleave-opt %s --print-sharding-rules -o /dev/null --verify-diagnostics

func.func @attention(%q: tensor<2x4x6x8xf64>, %k: tensor<2x2x6x8xf64>, %v: tensor<2x2x6x8xf64>, %m: tensor<2x1x6x6xf64>, %l: tensor<2x4x6xf64>) {
  // Two heads (r) share a key (g). Queries may be sharded where no mask counts positions.
  // expected-remark@+1 {{rule: [b, g r, l, e], [b, g, s, e], [b, g, s, e] -> [b, g r, l, e], [b, g r, l]; b = 2, l = 6, e = 8, g = 2, s = 6, r = 2; whole e s because each query attends to all of every key; linear {2} to {0}}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>) -> (tensor<2x4x6x8xf64>, tensor<2x4x6xf64>)
  // expected-remark@+1 {{whole l because the causal mask depends on positions in the whole sequence}}
  %1:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal = true) : (tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>) -> (tensor<2x4x6x8xf64>, tensor<2x4x6xf64>)
  // expected-remark@+1 {{[b, g, s, e], [b, g, s, e], [b, 1, l, s] -> [b, g r, l, e], [b, g r, l];}}
  %2:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, %m) : (tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x1x6x6xf64>) -> (tensor<2x4x6x8xf64>, tensor<2x4x6xf64>)
  return
}

func.func @attention_backward(%q: tensor<2x4x6x8xf64>, %k: tensor<2x2x6x8xf64>, %m: tensor<2x4x6xf64>) {
  // Given `out` and `logsumexp` of all keys, a part of the keys gives its own gradients.
  // expected-remark@+1 {{b = 2, l = 6 (sum), e = 8, g = 2, s = 6 (sum), r = 2 (sum); whole e because a score is a product over all of it; linear {0}}}
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%q, %q, %k, %k, %q, %m, dropout_p = 0.0, is_causal = false, none) : (tensor<2x4x6x8xf64>, tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x4x6x8xf64>, tensor<2x4x6xf64>) -> (tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>)
  // expected-remark@+1 {{whole l s because the causal mask depends on positions in the whole sequence}}
  %1:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%q, %q, %k, %k, %q, %m, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x6x8xf64>, tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x4x6x8xf64>, tensor<2x4x6xf64>) -> (tensor<2x4x6x8xf64>, tensor<2x2x6x8xf64>, tensor<2x2x6x8xf64>)
  return
}

func.func @norms(%x: tensor<4x3x8xf32>, %w: tensor<8xf32>, %s: tensor<4x3x1xf32>, %i: tensor<4x6x5x5xf32>, %c: tensor<6xf32>) {
  // expected-remark@+1 {{rule: [a, b, c], [d], [e] -> [a, b, f], [a, b, g], [a, b, h]; a = 4, b = 3, c = 8}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], %w, %w, eps = 1.0e-05) : (tensor<4x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x3x8xf32>, tensor<4x3x1xf32>, tensor<4x3x1xf32>)
  // The parameters' gradients are sums over the batch.
  // expected-remark@+1 {{-> [a, b, i], [j], [k]; a = 4 (sum), b = 3 (sum), c = 8}}
  %1:3 = aten.native_layer_norm_backward(%x, %x, normalized_shape = [8], %s, %s, %w, %w, output_mask = [true, true, true]) : (tensor<4x3x8xf32>, tensor<4x3x8xf32>, tensor<4x3x1xf32>, tensor<4x3x1xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x3x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // expected-remark@+1 {{a = 6, b = 4, c = 5, d = 5; whole b c d because mean and variance are those of the whole batch}}
  %2:5 = aten._native_batch_norm_legit_functional(%i, %c, %c, %c, %c, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<4x6x5x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x5x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  // expected-remark@+1 {{a = 6, b = 4 (sum, unaffected {1, 2, 3, 4}), c = 5 (sum, unaffected {1, 2, 3, 4}), d = 5 (sum, unaffected {1, 2, 3, 4})}}
  %3:5 = aten._native_batch_norm_legit_functional(%i, %c, %c, %c, %c, training = false, momentum = 0.1, eps = 1.0e-05) : (tensor<4x6x5x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x5x5xf32>, tensor<0xf32>, tensor<0xf32>, tensor<6xf32>, tensor<6xf32>)
  // expected-remark@+1 {{a = 6, b = 4 (sum), c = 5 (sum), d = 5 (sum); linear {0}}}
  %4:3 = aten.native_batch_norm_backward(%i, %i, %c, %c, %c, none, none, train = false, eps = 1.0e-05, output_mask = [true, true, true]) : (tensor<4x6x5x5xf32>, tensor<4x6x5x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x5x5xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

func.func @losses(%x: tensor<6x8xf32>, %t: tensor<6xi64>, %n: tensor<f32>, %w: tensor<8xf32>) {
  // expected-remark@+1 {{rule: [b, a], [b] -> [], []; a = 8, b = 6 (sum); whole a because a target may be any class; linear {0} to {0}}}
  %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 2, ignore_index = 3) : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  // expected-remark@+1 {{whole b because the mean divides by the weight of the whole batch; take the sum (reduction = 2)}}
  %1:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  // expected-remark@+1 {{rule: [b, a], [b], [a] -> [b], []; a = 8, b = 6 (sum);}}
  %2:2 = aten.nll_loss_forward(%x, %t, %w, reduction = 0, ignore_index = -100) : (tensor<6x8xf32>, tensor<6xi64>, tensor<8xf32>) -> (tensor<6xf32>, tensor<f32>)
  // The backward is told the weight of the whole batch.
  // expected-remark@+1 {{rule: [], [b, a], [b], [a], [] -> [b, a]; a = 8, b = 6; whole a because a target may be any class; linear {0}}}
  %3 = aten.nll_loss_backward(%n, %x, %t, %w, reduction = 1, ignore_index = 3, %n) : (tensor<f32>, tensor<6x8xf32>, tensor<6xi64>, tensor<8xf32>, tensor<f32>) -> tensor<6x8xf32>
  // expected-remark@+1 {{rule: [a, b], [b] -> []; a = 6 (sum), b = 8 (sum)}}
  %4 = aten.mse_loss(%x, %w, reduction = 2) : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<f32>
  // expected-remark@+1 {{rule: [a, b], [a, b] -> []; a = 6 (avg), b = 8 (avg)}}
  %5 = aten.mse_loss(%x, %x) : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<f32>
  // expected-remark@+1 {{rule: [], [a, b], [a, b] -> [a, b]; a = 6, b = 8; linear {0}}}
  %6 = aten.mse_loss_backward(%n, %x, %x, reduction = 2) : (tensor<f32>, tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  return
}

func.func @convolutions(%x: tensor<4x6x5x5xf32>, %w: tensor<8x6x3x3xf32>, %d: tensor<12x3x3x3xf32>, %b: tensor<8xf32>, %y: tensor<4x12x5x5xf32>) {
  // expected-remark@+1 {{rule: [a, b c, e, f], [b d, c, g, h], [b d] -> [a, b d, i, j]; a = 4, b = 1, c = 6 (sum, addends {2}), d = 8, e = 5,}}
  %0 = aten.convolution(%x, %w, %b, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<4x6x5x5xf32>, tensor<8x6x3x3xf32>, tensor<8xf32>) -> tensor<4x8x5x5xf32>
  // expected-remark@+1 {{-> [a, b c, k, l], [b d, c, m, n], [b d]; a = 4 (sum), b = 2, c = 3 (sum, unaffected {2}), d = 6 (sum), e = 5,}}
  %1:3 = aten.convolution_backward(%y, %x, %d, bias_sizes = [12], stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 2, output_mask = [true, true, true]) : (tensor<4x12x5x5xf32>, tensor<4x6x5x5xf32>, tensor<12x3x3x3xf32>) -> (tensor<4x6x5x5xf32>, tensor<12x3x3x3xf32>, tensor<12xf32>)
  return
}

func.func @indexing(%w: tensor<16x8xf32>, %i: tensor<2x4xi64>, %g: tensor<2x4x8xf32>, %s: tensor<16x4xf32>, %j: tensor<4xi64>, %k: tensor<16x4xi64>) {
  // expected-remark@+1 {{rule: [v, e], [a, b] -> [a, b, e]; v = 16, e = 8, a = 2, b = 4; whole v because an index may name any row; moves {0}}}
  %0 = aten.embedding(%w, %i) : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  // expected-remark@+1 {{rule: [a, b, e], [a, b] -> [v, e]; a = 2 (sum), b = 4 (sum), e = 8, v = 16; whole v because an index may name any row; linear {0}}}
  %1 = aten.embedding_dense_backward(%g, %i, num_weights = 16, padding_idx = -1, scale_grad_by_freq = false) : (tensor<2x4x8xf32>, tensor<2x4xi64>) -> tensor<16x8xf32>
  // expected-remark@+1 {{whole a b because gradients are divided by how often an index occurs in the whole batch}}
  %2 = aten.embedding_dense_backward(%g, %i, num_weights = 16, padding_idx = -1, scale_grad_by_freq = true) : (tensor<2x4x8xf32>, tensor<2x4xi64>) -> tensor<16x8xf32>
  // expected-remark@+1 {{rule: [a, c], [a, b], [a, b] -> [a, d]; a = 16, b = 4 (sum, addends {0}), c = 8, d = 8;}}
  %3 = aten.scatter_add(%w, dim = 1, %k, %s) : (tensor<16x8xf32>, tensor<16x4xi64>, tensor<16x4xf32>) -> tensor<16x8xf32>
  // expected-remark@+1 {{rule: [b, c], [a], [b, a] -> [b, d];}}
  %4 = aten.index_put(%w, [none, %j], %s, accumulate = true) : (tensor<16x8xf32>, tensor<4xi64>, tensor<16x4xf32>) -> tensor<16x8xf32>
  // expected-remark@+1 {{rule: [a, b, c] -> [a, d, e]; a = 2, b = 4, c = 8, d = 4, e = 8; whole b c d e because the diagonal depends on positions in the whole matrix; linear {0}}}
  %5 = aten.tril(%g) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return
}

func.func @random(%x: tensor<4x8xf32>, %seed: tensor<i64>, %offset: tensor<i64>) {
  // expected-remark@+1 {{rule: [a, b], [], [] -> [a, b], [a, b]; a = 4, b = 8; linear {0} to {0}; random}}
  %0:2 = aten.rng_native_dropout(%x, %seed, %offset, p = 0.1, train = true, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // expected-remark@+1 {{shape of {0}; random}}
  %1 = aten.rng_bernoulli(%x, %seed, %offset, p = 0.3, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  // expected-remark@+1 {{rule: [a, b], [], [] -> [a, b]; a = 4, b = 8; random}}
  %2 = aten.rng_bernoulli(%x, %seed, %offset, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
  return
}
