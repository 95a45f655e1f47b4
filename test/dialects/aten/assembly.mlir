// The forms of the syntax that all ops share, and what the printer makes of them.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// Arguments by name may stand anywhere; they are printed at their place in the schema.
// CHECK-LABEL: @order(
// CHECK: aten.addmm(%{{.*}}, %{{.*}}, %{{.*}}, beta = 5.000000e-01, alpha = 2) :
func.func @order(%c: tensor<4xf32>, %a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %0 = aten.addmm(alpha = 2, %c, %a, beta = 0.5, %b)
      : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// Optional tensors at the end may be left out in what is read, never in what is printed.
// CHECK-LABEL: @trailing_none(
// CHECK: aten.native_layer_norm(%{{.*}}, normalized_shape = [4], none, none, eps = 1.000000e-05) :
func.func @trailing_none(%x: tensor<2x4xf32>) {
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [4], eps = 1.0e-05)
      : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// CHECK-LABEL: @lists_with_none(
// CHECK: aten.index_put(%{{.*}}, [none, %{{.*}}, none], %{{.*}}, accumulate = true) :
func.func @lists_with_none(%x: tensor<2x3x4xf32>, %i: tensor<5xi64>, %v: tensor<f32>) {
  %0 = aten.index_put(%x, [none, %i, none], %v, accumulate = true)
      : (tensor<2x3x4xf32>, tensor<5xi64>, tensor<f32>) -> tensor<2x3x4xf32>
  return
}

// Numbers keep their kind and their bits.
// CHECK-LABEL: @numbers(
// CHECK: aten.mul_scalar(%{{.*}}, other = 2) :
// CHECK: aten.mul_scalar(%{{.*}}, other = 2.000000e+00) :
// CHECK: aten.mul_scalar(%{{.*}}, other = true) :
// CHECK: aten.mul_scalar(%{{.*}}, other = 0x7FF0000000000000 : f64) :
// CHECK: aten.mul_scalar(%{{.*}}, other = 0x7FF8000000000000 : f64) :
// CHECK: aten.mul_scalar(%{{.*}}, other = -9223372036854775808) :
// CHECK: aten.mul_scalar(%{{.*}}, other = 0.59460355750136051) :
// CHECK: aten.mul_scalar(%{{.*}}, other = -0.000000e+00) :
func.func @numbers(%x: tensor<f32>) {
  %0 = aten.mul_scalar(%x, other = 2) : (tensor<f32>) -> tensor<f32>
  %1 = aten.mul_scalar(%x, other = 2.0) : (tensor<f32>) -> tensor<f32>
  %2 = aten.mul_scalar(%x, other = true) : (tensor<f32>) -> tensor<f32>
  %3 = aten.mul_scalar(%x, other = 0x7FF0000000000000 : f64) : (tensor<f32>) -> tensor<f32>
  %4 = aten.mul_scalar(%x, other = 0x7FF8000000000000 : f64) : (tensor<f32>) -> tensor<f32>
  %5 = aten.mul_scalar(%x, other = -9223372036854775808) : (tensor<f32>) -> tensor<f32>
  %6 = aten.mul_scalar(%x, other = 0.5946035575013605) : (tensor<f32>) -> tensor<f32>
  %7 = aten.mul_scalar(%x, other = -0.0) : (tensor<f32>) -> tensor<f32>
  return
}

// Discardable attributes of other dialects stay.
// CHECK-LABEL: @discardable(
// CHECK: aten.t(%{{.*}}) {train.backward} :
func.func @discardable(%x: tensor<2x3xf32>) {
  %0 = aten.t(%x) {train.backward} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}
