// A sharding rule of each family: pointwise, reductions, matrix products, and what they call whole.
// RUN: cleave-opt %s --print-sharding-rules -o /dev/null --verify-diagnostics

func.func @pointwise(%a: tensor<4x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xf32>) {
  // expected-remark@+1 {{rule: [a, b] -> [a, b]; a = 4, b = 8}}
  %0 = aten.tanh(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{rule: [a, b], [b] -> [a, b]; a = 4, b = 8; linear {0, 1}}}
  %1 = aten.add(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{rule: [a, b], [a, 1] -> [a, b]; a = 4, b = 8; linear {0} {1}}}
  %2 = aten.mul(%a, %c) : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{rule: [a, b] -> [a, b]; a = 4, b = 8; linear {0}}}
  %3 = aten.mul_scalar(%a, other = 0.5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // Infinity times 0 is no 0.
  // expected-remark@+1 {{rule: [a, b] -> [a, b]; a = 4, b = 8}}
  %4 = aten.mul_scalar(%a, other = 0x7FF0000000000000 : f64) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

func.func @selection(%x: tensor<4x8xf32>, %y: tensor<f32>, %m: tensor<4x8xi1>) {
  // expected-remark@+1 {{moves {1, 2}}}
  %0 = aten.where(%m, %x, %y) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{a = 4, b = 8; linear {0}}}
  %1 = aten.masked_fill_scalar(%x, %m, value = 0) : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
  // expected-remark@+1 {{[a, b], [a, b] -> [a, b]; a = 4, b = 8}}
  %2 = aten.masked_fill_scalar(%x, %m, value = 1) : (tensor<4x8xf32>, tensor<4x8xi1>) -> tensor<4x8xf32>
  return
}

func.func @reduction(%x: tensor<4x8xf32>, %b: tensor<4x8xi1>) {
  // expected-remark@+1 {{rule: [a, b] -> [a]; a = 4, b = 8 (sum); linear {0}}}
  %0 = aten.sum_dim_int_list(%x, dim = [-1]) : (tensor<4x8xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{rule: [a, b] -> [1, b]; a = 4 (avg), b = 8; linear {0}}}
  %1 = aten.mean_dim(%x, dim = [0], keepdim = true) : (tensor<4x8xf32>) -> tensor<1x8xf32>
  // expected-remark@+1 {{rule: [a, b] -> []; a = 4 (max), b = 8 (max)}}
  %2 = aten.amax(%x) : (tensor<4x8xf32>) -> tensor<f32>
  // expected-remark@+1 {{rule: [a, b] -> []; a = 4 (min), b = 8 (min)}}
  %3 = aten.all(%b) : (tensor<4x8xi1>) -> tensor<i1>
  // expected-remark@+1 {{rule: [a, b] -> [a]; a = 4, b = 8; whole b because the root is that of the sum over all elements}}
  %4 = aten.linalg_vector_norm(%x, ord = 2.0, dim = [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{rule: [a, b] -> [a]; a = 4, b = 8 (sum)}}
  %5 = aten.linalg_vector_norm(%x, ord = 1, dim = [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{rule: [a, b] -> [a]; a = 4, b = 8 (max)}}
  %6 = aten.linalg_vector_norm(%x, ord = 0x7FF0000000000000 : f64, dim = [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
  // expected-remark@+1 {{rule: [a, b] -> [a, b]; a = 4, b = 8; whole b because each element is the sum of all before it; linear {0}}}
  %7 = aten.cumsum(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-remark@+1 {{whole b because any of its elements may be the largest}}
  %8:2 = aten.sort(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  // expected-remark@+1 {{whole b because each element is divided by the sum over all of it}}
  %9 = aten._softmax(%x, dim = 1, half_to_float = false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

func.func @products(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<16xf32>) {
  // expected-remark@+1 {{rule: [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 16; linear {0} {1}}}
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  // The bias is added once: where k is sharded, it must be a partial value.
  // expected-remark@+1 {{rule: [n], [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum, addends {0}), n = 16; linear {0, 1} {0, 2}}}
  %1 = aten.addmm(%c, %a, %b) : (tensor<16xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}

func.func @factories(%x: tensor<4x8xf32>) {
  // expected-remark@+1 {{rule: () -> [a, b]; a = 4, b = 8; `size` is the shape of result 0; factory}}
  %0 = aten.zeros(size = [4, 8]) : () -> tensor<4x8xf32>
  // expected-remark@+1 {{rule: () -> [a]; a = 8; whole a because the value of an element depends on its position; factory}}
  %1 = aten.arange(end = 8) : () -> tensor<8xi64>
  // expected-remark@+1 {{rule: [a, b] -> [a, b]; a = 4, b = 8; shape of {0}; factory}}
  %2 = aten.zeros_like(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

func.func @training(%p: tensor<4x8xf32>, %g: tensor<4x8xf32>, %t: tensor<f32>) {
  // expected-remark@+1 {{rule: [a, b], [a, b] -> [a, b]; a = 4, b = 8; linear {0, 1}}}
  %0 = train.accumulate %g into %p : tensor<4x8xf32>
  // expected-remark@+1 {{rule: [] -> []}}
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  // expected-remark@+1 {{rule: [a, b], [a, b], [a, b], [a, b], [], [] -> [a, b], [a, b], [a, b]; a = 4, b = 8}}
  %p1, %m1, %v1 = train.adamw(%p, %g, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64} : tensor<4x8xf32>
  // expected-remark@+1 {{rule: [a, b], [a, b], [], [] -> [a, b]; a = 4, b = 8}}
  %p2 = train.sgd(%p, %g, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4x8xf32>
  return
}

func.func @call(%x: tensor<4xf32>) {
  // expected-remark@+1 {{rule: opaque because Cleave knows only its schema}}
  %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

func.func @complex_numbers(%x: tensor<4x8x2xf32>, %z: tensor<4x8x6xcomplex<f32>>, %r: tensor<4x8xf32>) {
  // expected-remark@+1 {{rule: [a, b, c] -> [a, b]; a = 4, b = 8, c = 2; whole c because it is the two parts of a number; linear {0}}}
  %0 = aten.view_as_complex(%x) : (tensor<4x8x2xf32>) -> tensor<4x8xcomplex<f32>>
  // expected-remark@+1 {{rule: [a, b, c] -> [a, b, c, d]; a = 4, b = 8, c = 6, d = 2; whole d because it is the two parts of a number; linear {0}}}
  %1 = aten.view_as_real(%z) : (tensor<4x8x6xcomplex<f32>>) -> tensor<4x8x6x2xf32>
  // expected-remark@+1 {{rule: [a, b, c] -> [a, b, c]; a = 4, b = 8, c = 6; linear {0}}}
  %2 = aten.conj_physical(%z) : (tensor<4x8x6xcomplex<f32>>) -> tensor<4x8x6xcomplex<f32>>
  // All dimensions that are not transformed.
  // expected-remark@+1 {{rule: [b, a, c] -> [d, a, e]; a = 8, b = 4, c = 6, d = 4, e = 6; whole b c d e because each element of the transform is a sum over all of it; linear {0}}}
  %3 = aten._fft_c2c(%z, dim = [0, 2], normalization = 0, forward = true) : (tensor<4x8x6xcomplex<f32>>) -> tensor<4x8x6xcomplex<f32>>
  // expected-remark@+1 {{rule: [a, b] -> [a, c]; a = 4, b = 8, c = 5}}
  %4 = aten._fft_r2c(%r, dim = [1], normalization = 0, onesided = true) : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
  return
}
