// Comparisons, logic and selection: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @eq(
// CHECK: aten.eq(%{{.*}}, %{{.*}}) : (tensor<2x16x1xi64>, tensor<2x1x16xi64>) -> tensor<2x16x16xi1>
func.func @eq(%a: tensor<2x16x1xi64>, %b: tensor<2x1x16xi64>) {
  %0 = aten.eq(%a, %b) : (tensor<2x16x1xi64>, tensor<2x1x16xi64>) -> tensor<2x16x16xi1>
  return
}

// CHECK-LABEL: @eq_scalar(
// CHECK: aten.eq_scalar(%{{.*}}, other = 0) : (tensor<2x1xf32>) -> tensor<2x1xi1>
func.func @eq_scalar(%a: tensor<2x1xf32>) {
  %0 = aten.eq_scalar(%a, other = 0) : (tensor<2x1xf32>) -> tensor<2x1xi1>
  return
}

// CHECK-LABEL: @ne(
// CHECK: aten.ne(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xi1>
func.func @ne(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  %0 = aten.ne(%a, %b) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @ne_scalar(
// CHECK: aten.ne_scalar(%{{.*}}, other = 1) : (tensor<2x16xi64>) -> tensor<2x16xi1>
func.func @ne_scalar(%a: tensor<2x16xi64>) {
  %0 = aten.ne_scalar(%a, other = 1) : (tensor<2x16xi64>) -> tensor<2x16xi1>
  return
}

// CHECK-LABEL: @lt(
// CHECK: aten.lt(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
func.func @lt(%a: tensor<4xf32>, %b: tensor<f32>) {
  %0 = aten.lt(%a, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @lt_scalar(
// CHECK: aten.lt_scalar(%{{.*}}, other = 40) : (tensor<128xi64>) -> tensor<128xi1>
func.func @lt_scalar(%a: tensor<128xi64>) {
  %0 = aten.lt_scalar(%a, other = 40) : (tensor<128xi64>) -> tensor<128xi1>
  return
}

// CHECK-LABEL: @le(
// CHECK: aten.le(%{{.*}}, %{{.*}}) : (tensor<16xi64>, tensor<16x1xi64>) -> tensor<16x16xi1>
func.func @le(%a: tensor<16xi64>, %b: tensor<16x1xi64>) {
  %0 = aten.le(%a, %b) : (tensor<16xi64>, tensor<16x1xi64>) -> tensor<16x16xi1>
  return
}

// CHECK-LABEL: @le_scalar(
// CHECK: aten.le_scalar(%{{.*}}, other = 5.000000e-01) : (tensor<4xbf16>) -> tensor<4xi1>
func.func @le_scalar(%a: tensor<4xbf16>) {
  %0 = aten.le_scalar(%a, other = 0.5) : (tensor<4xbf16>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @gt(
// CHECK: aten.gt(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
func.func @gt(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  %0 = aten.gt(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @gt_scalar(
// CHECK: aten.gt_scalar(%{{.*}}, other = 0) : (tensor<4xf32>) -> tensor<4xi1>
func.func @gt_scalar(%a: tensor<4xf32>) {
  %0 = aten.gt_scalar(%a, other = 0) : (tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @ge(
// CHECK: aten.ge(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
func.func @ge(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  %0 = aten.ge(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @ge_scalar(
// CHECK: aten.ge_scalar(%{{.*}}, other = 9.9999999999999998E-13) : (tensor<2x1xf32>) -> tensor<2x1xi1>
func.func @ge_scalar(%a: tensor<2x1xf32>) {
  %0 = aten.ge_scalar(%a, other = 1.0e-12) : (tensor<2x1xf32>) -> tensor<2x1xi1>
  return
}

// CHECK-LABEL: @logical_and(
// CHECK: aten.logical_and(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xi1>
func.func @logical_and(%a: tensor<4xf32>, %b: tensor<4xi1>) {
  %0 = aten.logical_and(%a, %b) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @logical_or(
// CHECK: aten.logical_or(%{{.*}}, %{{.*}}) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
func.func @logical_or(%a: tensor<4xi1>, %b: tensor<4xi1>) {
  %0 = aten.logical_or(%a, %b) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @logical_not(
// CHECK: aten.logical_not(%{{.*}}) : (tensor<4xi64>) -> tensor<4xi1>
func.func @logical_not(%a: tensor<4xi64>) {
  %0 = aten.logical_not(%a) : (tensor<4xi64>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @bitwise_and(
// CHECK: aten.bitwise_and(%{{.*}}, %{{.*}}) : (tensor<16x1xi1>, tensor<16x16xi1>) -> tensor<16x16xi1>
func.func @bitwise_and(%a: tensor<16x1xi1>, %b: tensor<16x16xi1>) {
  %0 = aten.bitwise_and(%a, %b) : (tensor<16x1xi1>, tensor<16x16xi1>) -> tensor<16x16xi1>
  return
}

// CHECK-LABEL: @bitwise_or(
// CHECK: aten.bitwise_or(%{{.*}}, %{{.*}}) : (tensor<4xi1>, tensor<4xi32>) -> tensor<4xi32>
func.func @bitwise_or(%a: tensor<4xi1>, %b: tensor<4xi32>) {
  %0 = aten.bitwise_or(%a, %b) : (tensor<4xi1>, tensor<4xi32>) -> tensor<4xi32>
  return
}

// CHECK-LABEL: @bitwise_not(
// CHECK: aten.bitwise_not(%{{.*}}) : (tensor<4xui8>) -> tensor<4xui8>
func.func @bitwise_not(%a: tensor<4xui8>) {
  %0 = aten.bitwise_not(%a) : (tensor<4xui8>) -> tensor<4xui8>
  return
}

// CHECK-LABEL: @maximum(
// CHECK: aten.maximum(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
func.func @maximum(%a: tensor<4xf32>, %b: tensor<f32>) {
  %0 = aten.maximum(%a, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @minimum(
// CHECK: aten.minimum(%{{.*}}, %{{.*}}) : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi64>
func.func @minimum(%a: tensor<4xi32>, %b: tensor<4xi64>) {
  %0 = aten.minimum(%a, %b) : (tensor<4xi32>, tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @clamp(
// CHECK: aten.clamp(%{{.*}}, min = 1.000000e-09) : (tensor<2x1xf32>) -> tensor<2x1xf32>
func.func @clamp(%a: tensor<2x1xf32>) {
  %0 = aten.clamp(%a, min = 1.0e-09) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  return
}

// CHECK-LABEL: @clamp_2(
// CHECK: aten.clamp(%{{.*}}, max = 3) : (tensor<4xi64>) -> tensor<4xi64>
func.func @clamp_2(%a: tensor<4xi64>) {
  %0 = aten.clamp(%a, max = 3) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @clamp_min(
// CHECK: aten.clamp_min(%{{.*}}, min = 5.000000e-01) : (tensor<4xi64>) -> tensor<4xf32>
func.func @clamp_min(%a: tensor<4xi64>) {
  %0 = aten.clamp_min(%a, min = 0.5) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @clamp_max(
// CHECK: aten.clamp_max(%{{.*}}, max = 3) : (tensor<4xf32>) -> tensor<4xf32>
func.func @clamp_max(%a: tensor<4xf32>) {
  %0 = aten.clamp_max(%a, max = 3) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @where(
// CHECK: aten.where(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<32x32xi1>, tensor<f32>, tensor<f32>) -> tensor<32x32xf32>
func.func @where(%c: tensor<32x32xi1>, %a: tensor<f32>, %b: tensor<f32>) {
  %0 = aten.where(%c, %a, %b) : (tensor<32x32xi1>, tensor<f32>, tensor<f32>) -> tensor<32x32xf32>
  return
}

// CHECK-LABEL: @where_2(
// CHECK: aten.where(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<128xi1>, tensor<128xi64>, tensor<i64>) -> tensor<128xi64>
func.func @where_2(%c: tensor<128xi1>, %a: tensor<128xi64>, %b: tensor<i64>) {
  %0 = aten.where(%c, %a, %b) : (tensor<128xi1>, tensor<128xi64>, tensor<i64>) -> tensor<128xi64>
  return
}

// CHECK-LABEL: @where_3(
// CHECK: aten.where(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x1xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4x4xf64>
func.func @where_3(%c: tensor<4x1xi1>, %a: tensor<4xf32>, %b: tensor<4xf64>) {
  %0 = aten.where(%c, %a, %b) : (tensor<4x1xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4x4xf64>
  return
}

// CHECK-LABEL: @masked_fill_scalar(
// CHECK: aten.masked_fill_scalar(%{{.*}}, %{{.*}}, value = -3.4028234663852886E+38) : (tensor<2x1x12x12xf32>, tensor<2x1x12x12xi1>) -> tensor<2x1x12x12xf32>
func.func @masked_fill_scalar(%x: tensor<2x1x12x12xf32>, %m: tensor<2x1x12x12xi1>) {
  %0 = aten.masked_fill_scalar(%x, %m, value = -3.4028234663852886E+38) : (tensor<2x1x12x12xf32>, tensor<2x1x12x12xi1>) -> tensor<2x1x12x12xf32>
  return
}

// CHECK-LABEL: @masked_fill_scalar_2(
// CHECK: aten.masked_fill_scalar(%{{.*}}, %{{.*}}, value = 0) : (tensor<2x384xf32>, tensor<2x1xi1>) -> tensor<2x384xf32>
func.func @masked_fill_scalar_2(%x: tensor<2x384xf32>, %m: tensor<2x1xi1>) {
  %0 = aten.masked_fill_scalar(%x, %m, value = 0) : (tensor<2x384xf32>, tensor<2x1xi1>) -> tensor<2x384xf32>
  return
}

// CHECK-LABEL: @masked_fill(
// CHECK: aten.masked_fill(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<8xf32>, tensor<4x1xi1>, tensor<f32>) -> tensor<4x8xf32>
func.func @masked_fill(%x: tensor<8xf32>, %m: tensor<4x1xi1>, %v: tensor<f32>) {
  %0 = aten.masked_fill(%x, %m, %v) : (tensor<8xf32>, tensor<4x1xi1>, tensor<f32>) -> tensor<4x8xf32>
  return
}
