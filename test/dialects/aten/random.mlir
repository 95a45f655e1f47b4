// Random numbers, and the gradient of dropout: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @rng_native_dropout(
// CHECK: aten.rng_native_dropout(%{{.*}}, %{{.*}}, %{{.*}}, p = 1.000000e-01, train = true, position = 128, generator = #aten.generator<mt19937>) : (tensor<2x32x32xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x32x32xf32>, tensor<2x32x32xi1>)
func.func @rng_native_dropout(%x: tensor<2x32x32xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.1, train = true, position = 128, generator = #aten.generator<mt19937>) : (tensor<2x32x32xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x32x32xf32>, tensor<2x32x32xi1>)
  return
}

// CHECK-LABEL: @rng_native_dropout_2(
// CHECK: aten.rng_native_dropout(%{{.*}}, %{{.*}}, %{{.*}}, p = 5.000000e-01, position = 0, generator = #aten.generator<philox>) : (tensor<4xbf16>, tensor<i64>, tensor<i64>) -> (tensor<4xbf16>, tensor<4xi1>)
func.func @rng_native_dropout_2(%x: tensor<4xbf16>, %s: tensor<i64>, %o: tensor<i64>) {
  %0:2 = aten.rng_native_dropout(%x, %s, %o, p = 0.5, position = 0, generator = #aten.generator<philox>) : (tensor<4xbf16>, tensor<i64>, tensor<i64>) -> (tensor<4xbf16>, tensor<4xi1>)
  return
}

// CHECK-LABEL: @rng_bernoulli(
// CHECK: aten.rng_bernoulli(%{{.*}}, %{{.*}}, %{{.*}}, p = 3.000000e-01, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
func.func @rng_bernoulli(%x: tensor<4xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_bernoulli(%x, %s, %o, p = 0.3, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @rng_bernoulli_2(
// CHECK: aten.rng_bernoulli(%{{.*}}, %{{.*}}, %{{.*}}, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
func.func @rng_bernoulli_2(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_bernoulli(%x, %s, %o, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @rng_uniform(
// CHECK: aten.rng_uniform(%{{.*}}, %{{.*}}, %{{.*}}, from = -1.000000e+00, to = 1.000000e+00, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
func.func @rng_uniform(%x: tensor<4xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_uniform(%x, %s, %o, from = -1.0, to = 1.0, position = 0, generator = #aten.generator<mt19937>) : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @rng_normal(
// CHECK: aten.rng_normal(%{{.*}}, %{{.*}}, %{{.*}}, mean = 0.000000e+00, std = 2.000000e-02, position = 0, generator = #aten.generator<mt19937>) : (tensor<16xf64>, tensor<i64>, tensor<i64>) -> tensor<16xf64>
func.func @rng_normal(%x: tensor<16xf64>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_normal(%x, %s, %o, mean = 0.0, std = 0.02, position = 0, generator = #aten.generator<mt19937>) : (tensor<16xf64>, tensor<i64>, tensor<i64>) -> tensor<16xf64>
  return
}

// CHECK-LABEL: @rng_exponential(
// CHECK: aten.rng_exponential(%{{.*}}, %{{.*}}, %{{.*}}, lambd = 2.000000e+00, position = 3, generator = #aten.generator<philox>) : (tensor<4xbf16>, tensor<i64>, tensor<i64>) -> tensor<4xbf16>
func.func @rng_exponential(%x: tensor<4xbf16>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_exponential(%x, %s, %o, lambd = 2.0, position = 3, generator = #aten.generator<philox>) : (tensor<4xbf16>, tensor<i64>, tensor<i64>) -> tensor<4xbf16>
  return
}

// CHECK-LABEL: @rng_randint(
// CHECK: aten.rng_randint(%{{.*}}, %{{.*}}, %{{.*}}, low = -3, high = 10, position = 64, generator = #aten.generator<mt19937>) : (tensor<4x8xi64>, tensor<i64>, tensor<i64>) -> tensor<4x8xi64>
func.func @rng_randint(%x: tensor<4x8xi64>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_randint(%x, %s, %o, low = -3, high = 10, position = 64, generator = #aten.generator<mt19937>) : (tensor<4x8xi64>, tensor<i64>, tensor<i64>) -> tensor<4x8xi64>
  return
}

// CHECK-LABEL: @rng_randperm(
// CHECK: aten.rng_randperm(%{{.*}}, %{{.*}}, %{{.*}}, position = 0, generator = #aten.generator<mt19937>) : (tensor<8xi32>, tensor<i64>, tensor<i64>) -> tensor<8xi32>
func.func @rng_randperm(%x: tensor<8xi32>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_randperm(%x, %s, %o, position = 0, generator = #aten.generator<mt19937>) : (tensor<8xi32>, tensor<i64>, tensor<i64>) -> tensor<8xi32>
  return
}

// CHECK-LABEL: @rng_multinomial(
// CHECK: aten.rng_multinomial(%{{.*}}, %{{.*}}, %{{.*}}, num_samples = 9, replacement = true, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x9xi64>
func.func @rng_multinomial(%x: tensor<4x8xf32>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 9, replacement = true, position = 0, generator = #aten.generator<mt19937>) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x9xi64>
  return
}

// CHECK-LABEL: @rng_multinomial_2(
// CHECK: aten.rng_multinomial(%{{.*}}, %{{.*}}, %{{.*}}, num_samples = 8, replacement = false, position = 0, generator = #aten.generator<philox>) : (tensor<8xf64>, tensor<i64>, tensor<i64>) -> tensor<8xi64>
func.func @rng_multinomial_2(%x: tensor<8xf64>, %s: tensor<i64>, %o: tensor<i64>) {
  %0 = aten.rng_multinomial(%x, %s, %o, num_samples = 8, replacement = false, position = 0, generator = #aten.generator<philox>) : (tensor<8xf64>, tensor<i64>, tensor<i64>) -> tensor<8xi64>
  return
}

// CHECK-LABEL: @native_dropout_backward(
// CHECK: aten.native_dropout_backward(%{{.*}}, %{{.*}}, scale = 1.1111111111111112) : (tensor<2x16x32xf32>, tensor<2x16x32xi1>) -> tensor<2x16x32xf32>
func.func @native_dropout_backward(%g: tensor<2x16x32xf32>, %m: tensor<2x16x32xi1>) {
  %0 = aten.native_dropout_backward(%g, %m, scale = 1.1111111111111112) : (tensor<2x16x32xf32>, tensor<2x16x32xi1>) -> tensor<2x16x32xf32>
  return
}
