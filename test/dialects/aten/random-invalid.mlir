// Random numbers: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @rng_native_dropout(%x: tensor<4xf32>, %s: tensor<1xi64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects `seed` of type tensor<i64>, found 'tensor<1xi64>'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<1xi64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_2(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i32>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects `offset` of type tensor<i64>, found 'tensor<i32>'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_3(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects a non-negative `position`, found -1}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = -1, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_4(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+2 {{expected ::cleave::aten::Generator to be one of: mt19937, philox}}
  // expected-error @+1 {{failed to parse Aten_GeneratorAttr parameter 'value'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<xorshift>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_5(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects `input` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> (tensor<4xi64>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_6(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects `p` in [0, 1], found 1.500000e+00}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 1.5, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_7(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects result 0 of type 'tensor<4xf32>', found 'tensor<5xf32>'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<5xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_native_dropout_8(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op expects result 1 of type 'tensor<4xi1>', found 'tensor<4xf32>'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @rng_native_dropout_9(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_native_dropout' op requires attribute 'position'}}
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @rng_bernoulli(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_bernoulli' op expects `p` in [0, 1], found -5.000000e-01}}
  %0 = aten.rng_bernoulli(%x, %s, %o, p = -0.5, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_bernoulli_2(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_bernoulli' op expects `like` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten.rng_bernoulli(%x, %s, %o, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return
}

// -----

func.func @rng_bernoulli_3(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_bernoulli' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi1>'}}
  %0 = aten.rng_bernoulli(%x, %s, %o, p = 0.5, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xi1>
  return
}

// -----

func.func @rng_uniform(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_uniform' op expects `like` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten.rng_uniform(%x, %s, %o, from = 0.0, to = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return
}

// -----

func.func @rng_uniform_2(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_uniform' op expects `from` not above `to`, found 1.000000e+00 and 0.000000e+00}}
  %0 = aten.rng_uniform(%x, %s, %o, from = 1.0, to = 0.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_uniform_3(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_uniform' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.rng_uniform(%x, %s, %o, from = 0.0, to = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf64>
  return
}

// -----

func.func @rng_normal(%x: tensor<4xi1>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_normal' op expects `like` to have a floating-point dtype, found 'tensor<4xi1>'}}
  %0 = aten.rng_normal(%x, %s, %o, mean = 0.0, std = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi1>, tensor<i64>, tensor<i64>) -> tensor<4xi1>
  return
}

// -----

func.func @rng_normal_2(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_normal' op expects a non-negative `std`, found -1.000000e+00}}
  %0 = aten.rng_normal(%x, %s, %o, mean = 0.0, std = -1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_normal_3(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_normal' op expects a result of type 'tensor<4xf32>', found 'tensor<2x2xf32>'}}
  %0 = aten.rng_normal(%x, %s, %o, mean = 0.0, std = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<2x2xf32>
  return
}

// -----

func.func @native_dropout_backward(%g: tensor<4xf32>, %m: tensor<5xi1>) {
  // expected-error @+1 {{'aten.native_dropout_backward' op expects `mask` of shape [4], found 'tensor<5xi1>'}}
  %0 = aten.native_dropout_backward(%g, %m, scale = 2.0) : (tensor<4xf32>, tensor<5xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @native_dropout_backward_2(%g: tensor<4xf32>, %m: tensor<4xf32>) {
  // expected-error @+1 {{'aten.native_dropout_backward' op expects `mask` of dtype i1, found 'tensor<4xf32>'}}
  %0 = aten.native_dropout_backward(%g, %m, scale = 2.0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @native_dropout_backward_3(%g: tensor<4xf32>, %m: tensor<4xi1>) {
  // expected-error @+1 {{'aten.native_dropout_backward' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.native_dropout_backward(%g, %m, scale = 2.0) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf64>
  return
}

// -----

func.func @rng_exponential(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_exponential' op expects `lambd` above 0, found 0.000000e+00}}
  %0 = aten.rng_exponential(%x, %s, %o, lambd = 0.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_exponential_2(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_exponential' op expects `like` to have a floating-point dtype, found 'tensor<4xi64>'}}
  %0 = aten.rng_exponential(%x, %s, %o, lambd = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return
}

// -----

func.func @rng_randint(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_randint' op expects `low` below `high`, found 3 and 3}}
  %0 = aten.rng_randint(%x, %s, %o, low = 3, high = 3, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return
}

// -----

func.func @rng_randint_2(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_randint' op expects a result of type 'tensor<4xi64>', found 'tensor<4xi32>'}}
  %0 = aten.rng_randint(%x, %s, %o, low = 0, high = 3, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi32>
  return
}

// -----

func.func @rng_randperm(%x: tensor<4x2xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_randperm' op expects `like` of one dimension, found 'tensor<4x2xi64>'}}
  %0 = aten.rng_randperm(%x, %s, %o, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x2xi64>, tensor<i64>, tensor<i64>) -> tensor<4x2xi64>
  return
}

// -----

func.func @rng_randperm_2(%x: tensor<4xi64>, %s: tensor<1xi64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_randperm' op expects `seed` of type tensor<i64>, found 'tensor<1xi64>'}}
  %0 = aten.rng_randperm(%x, %s, %o, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<1xi64>, tensor<i64>) -> tensor<4xi64>
  return
}

// -----

func.func @rng_multinomial(%x: tensor<4x8xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_multinomial' op expects `probabilities` to have a floating-point dtype, found 'tensor<4x8xi64>'}}
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 1, replacement = false, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xi64>, tensor<i64>, tensor<i64>) -> tensor<4x1xi64>
  return
}

// -----

func.func @rng_multinomial_2(%x: tensor<2x4x8xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_multinomial' op expects `probabilities` of one or two dimensions, found 'tensor<2x4x8xf32>'}}
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 1, replacement = false, position = 0, generator = #aten.generator<mt19937>) : (tensor<2x4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<2x4x1xi64>
  return
}

// -----

func.func @rng_multinomial_3(%x: tensor<8xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_multinomial' op expects `num_samples` above 0, found 0}}
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 0, replacement = true, position = 0, generator = #aten.generator<mt19937>) : (tensor<8xf32>, tensor<i64>, tensor<i64>) -> tensor<0xi64>
  return
}

// -----

func.func @rng_multinomial_4(%x: tensor<8xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_multinomial' op expects `num_samples` of at most 8, the weights of a row, without `replacement`, found 9}}
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 9, replacement = false, position = 0, generator = #aten.generator<mt19937>) : (tensor<8xf32>, tensor<i64>, tensor<i64>) -> tensor<9xi64>
  return
}

// -----

func.func @rng_multinomial_5(%x: tensor<4x8xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  // expected-error @+1 {{'aten.rng_multinomial' op expects a result of type 'tensor<4x2xi64>', found 'tensor<4x8xi64>'}}
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 2, replacement = false, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xi64>
  return
}
