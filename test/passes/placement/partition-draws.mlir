// RUN: cleave-opt %s --partition --verify-diagnostics | FileCheck %s

// The order of the numbers that are drawn is that in which the operand lies in memory on one device. An op
// whose results' layout is not known leaves it as on one device only where nothing was communicated before.

#R = #dist.on<@mesh, dp = R>
#S0 = #dist.on<@mesh, dp = S(0)>
dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @gathered(
// CHECK: %[[O:.*]] = aten.full(size = [4, 2, 8, 8], fill_value = 1.000000e+00, dtype = f32)
// CHECK: aten.rng_native_dropout(%[[O]],
func.func @gathered(%x: tensor<4x2x4x4xf32> {dist.placement = #S0}, %seed: tensor<i64> {dist.placement = #R},
    %offset: tensor<i64> {dist.placement = #R}) -> (tensor<4x2x8x8xf32> {dist.placement = #R}) {
  %0 = aten.neg(%x) {dist.operands = [#R], dist.results = [#R]} : (tensor<4x2x4x4xf32>) -> tensor<4x2x4x4xf32>
  %1 = aten.upsample_bilinear2d(%0, output_size = [8, 8], align_corners = false)
      {dist.operands = [#R], dist.results = [#R]} : (tensor<4x2x4x4xf32>) -> tensor<4x2x8x8xf32>
  // expected-remark @+1 {{draws in row-major order: the memory layout of its operand on one device, which determines the order, is unknown}}
  %2:2 = aten.rng_native_dropout(%1, %seed, %offset, p = 0.1, train = true, position = 0, generator = #aten.generator<mt19937>)
      {dist.operands = [#R, #R, #R], dist.results = [#R, #R]}
      : (tensor<4x2x8x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>)
  return %2#0 : tensor<4x2x8x8xf32>
}

// CHECK-LABEL: func.func @as_on_one_device(
// CHECK: %[[U:.*]] = aten.upsample_bilinear2d(
// CHECK-NEXT: aten.rng_native_dropout(%[[U]],
func.func @as_on_one_device(%x: tensor<4x2x4x4xf32> {dist.placement = #R}, %seed: tensor<i64> {dist.placement = #R},
    %offset: tensor<i64> {dist.placement = #R}) -> (tensor<4x2x8x8xf32> {dist.placement = #R}) {
  %1 = aten.upsample_bilinear2d(%x, output_size = [8, 8], align_corners = false)
      {dist.operands = [#R], dist.results = [#R]} : (tensor<4x2x4x4xf32>) -> tensor<4x2x8x8xf32>
  %2:2 = aten.rng_native_dropout(%1, %seed, %offset, p = 0.1, train = true, position = 0, generator = #aten.generator<mt19937>)
      {dist.operands = [#R, #R, #R], dist.results = [#R, #R]}
      : (tensor<4x2x8x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x2x8x8xf32>, tensor<4x2x8x8xi1>)
  return %2#0 : tensor<4x2x8x8xf32>
}
