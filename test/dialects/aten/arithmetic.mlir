// Sums, products, powers and elementary functions: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @add(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @add(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.add(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @add_2(
// CHECK: aten.add(%{{.*}}, %{{.*}}, alpha = 2) : (tensor<4x1xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
func.func @add_2(%a: tensor<4x1xf32>, %b: tensor<1x8xf32>) {
  %0 = aten.add(%a, %b, alpha = 2) : (tensor<4x1xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @add_3(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4xf16>, tensor<4xbf16>) -> tensor<4xf32>
func.func @add_3(%a: tensor<4xf16>, %b: tensor<4xbf16>) {
  %0 = aten.add(%a, %b) : (tensor<4xf16>, tensor<4xbf16>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @add_4(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4xi8>, tensor<4xui8>) -> tensor<4xi16>
func.func @add_4(%a: tensor<4xi8>, %b: tensor<4xui8>) {
  %0 = aten.add(%a, %b) : (tensor<4xi8>, tensor<4xui8>) -> tensor<4xi16>
  return
}

// CHECK-LABEL: @add_5(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4xi32>, tensor<i64>) -> tensor<4xi32>
func.func @add_5(%a: tensor<4xi32>, %b: tensor<i64>) {
  %0 = aten.add(%a, %b) : (tensor<4xi32>, tensor<i64>) -> tensor<4xi32>
  return
}

// CHECK-LABEL: @add_6(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4xi32>, tensor<f64>) -> tensor<4xf64>
func.func @add_6(%a: tensor<4xi32>, %b: tensor<f64>) {
  %0 = aten.add(%a, %b) : (tensor<4xi32>, tensor<f64>) -> tensor<4xf64>
  return
}

// CHECK-LABEL: @add_7(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4xbf16>, tensor<f64>) -> tensor<4xbf16>
func.func @add_7(%a: tensor<4xbf16>, %b: tensor<f64>) {
  %0 = aten.add(%a, %b) : (tensor<4xbf16>, tensor<f64>) -> tensor<4xbf16>
  return
}

// CHECK-LABEL: @add_8(
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<0x4xf32>, tensor<1xf32>) -> tensor<0x4xf32>
func.func @add_8(%a: tensor<0x4xf32>, %b: tensor<1xf32>) {
  %0 = aten.add(%a, %b) : (tensor<0x4xf32>, tensor<1xf32>) -> tensor<0x4xf32>
  return
}

// CHECK-LABEL: @add_scalar(
// CHECK: aten.add_scalar(%{{.*}}, other = 1) : (tensor<4xi1>) -> tensor<4xi64>
func.func @add_scalar(%a: tensor<4xi1>) {
  %0 = aten.add_scalar(%a, other = 1) : (tensor<4xi1>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @add_scalar_2(
// CHECK: aten.add_scalar(%{{.*}}, other = 5.000000e-01, alpha = 3) : (tensor<4xi32>) -> tensor<4xf32>
func.func @add_scalar_2(%a: tensor<4xi32>) {
  %0 = aten.add_scalar(%a, other = 0.5, alpha = 3) : (tensor<4xi32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @add_scalar_3(
// CHECK: aten.add_scalar(%{{.*}}, other = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<4xf32>
func.func @add_scalar_3(%a: tensor<4xf32>) {
  %0 = aten.add_scalar(%a, other = 0x7FF0000000000000 : f64) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @sub(
// CHECK: aten.sub(%{{.*}}, %{{.*}}) : (tensor<f32>, tensor<2x1x12x12xf32>) -> tensor<2x1x12x12xf32>
func.func @sub(%a: tensor<f32>, %b: tensor<2x1x12x12xf32>) {
  %0 = aten.sub(%a, %b) : (tensor<f32>, tensor<2x1x12x12xf32>) -> tensor<2x1x12x12xf32>
  return
}

// CHECK-LABEL: @sub_scalar(
// CHECK: aten.sub_scalar(%{{.*}}, other = 1) : (tensor<128x4xi64>) -> tensor<128x4xi64>
func.func @sub_scalar(%a: tensor<128x4xi64>) {
  %0 = aten.sub_scalar(%a, other = 1) : (tensor<128x4xi64>) -> tensor<128x4xi64>
  return
}

// CHECK-LABEL: @rsub_scalar(
// CHECK: aten.rsub_scalar(%{{.*}}, other = 1.000000e+00) : (tensor<4xbf16>) -> tensor<4xbf16>
func.func @rsub_scalar(%a: tensor<4xbf16>) {
  %0 = aten.rsub_scalar(%a, other = 1.0) : (tensor<4xbf16>) -> tensor<4xbf16>
  return
}

// CHECK-LABEL: @mul(
// CHECK: aten.mul(%{{.*}}, %{{.*}}) : (tensor<128x1xf32>, tensor<128x1xi1>) -> tensor<128x1xf32>
func.func @mul(%a: tensor<128x1xf32>, %b: tensor<128x1xi1>) {
  %0 = aten.mul(%a, %b) : (tensor<128x1xf32>, tensor<128x1xi1>) -> tensor<128x1xf32>
  return
}

// CHECK-LABEL: @mul_2(
// CHECK: aten.mul(%{{.*}}, %{{.*}}) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
func.func @mul_2(%a: tensor<4xi1>, %b: tensor<4xi1>) {
  %0 = aten.mul(%a, %b) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @mul_scalar(
// CHECK: aten.mul_scalar(%{{.*}}, other = 40) : (tensor<128xi64>) -> tensor<128xi64>
func.func @mul_scalar(%a: tensor<128xi64>) {
  %0 = aten.mul_scalar(%a, other = 40) : (tensor<128xi64>) -> tensor<128xi64>
  return
}

// CHECK-LABEL: @mul_scalar_2(
// CHECK: aten.mul_scalar(%{{.*}}, other = true) : (tensor<4xi1>) -> tensor<4xi1>
func.func @mul_scalar_2(%a: tensor<4xi1>) {
  %0 = aten.mul_scalar(%a, other = true) : (tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @div(
// CHECK: aten.div(%{{.*}}, %{{.*}}) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
func.func @div(%a: tensor<4xi64>, %b: tensor<4xi64>) {
  %0 = aten.div(%a, %b) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @div_2(
// CHECK: aten.div(%{{.*}}, %{{.*}}) : (tensor<64x2xf32>, tensor<64x1xf32>) -> tensor<64x2xf32>
func.func @div_2(%a: tensor<64x2xf32>, %b: tensor<64x1xf32>) {
  %0 = aten.div(%a, %b) : (tensor<64x2xf32>, tensor<64x1xf32>) -> tensor<64x2xf32>
  return
}

// CHECK-LABEL: @div_scalar(
// CHECK: aten.div_scalar(%{{.*}}, other = 64) : (tensor<64x4xf32>) -> tensor<64x4xf32>
func.func @div_scalar(%a: tensor<64x4xf32>) {
  %0 = aten.div_scalar(%a, other = 64) : (tensor<64x4xf32>) -> tensor<64x4xf32>
  return
}

// CHECK-LABEL: @addcmul(
// CHECK: aten.addcmul(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
func.func @addcmul(%x: tensor<4x8xf32>, %a: tensor<8xf32>, %b: tensor<4x1xf32>) {
  %0 = aten.addcmul(%x, %a, %b) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @pow(
// CHECK: aten.pow(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
func.func @pow(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  %0 = aten.pow(%a, %b) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @pow_tensor_scalar(
// CHECK: aten.pow_tensor_scalar(%{{.*}}, exponent = 2.000000e+00) : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
func.func @pow_tensor_scalar(%a: tensor<2x16x32xf32>) {
  %0 = aten.pow_tensor_scalar(%a, exponent = 2.0) : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  return
}

// CHECK-LABEL: @pow_tensor_scalar_2(
// CHECK: aten.pow_tensor_scalar(%{{.*}}, exponent = 3) : (tensor<4xi64>) -> tensor<4xi64>
func.func @pow_tensor_scalar_2(%a: tensor<4xi64>) {
  %0 = aten.pow_tensor_scalar(%a, exponent = 3) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @pow_tensor_scalar_3(
// CHECK: aten.pow_tensor_scalar(%{{.*}}, exponent = 5.000000e-01) : (tensor<4xi64>) -> tensor<4xf32>
func.func @pow_tensor_scalar_3(%a: tensor<4xi64>) {
  %0 = aten.pow_tensor_scalar(%a, exponent = 0.5) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @sqrt(
// CHECK: aten.sqrt(%{{.*}}) : (tensor<4xi64>) -> tensor<4xf32>
func.func @sqrt(%x: tensor<4xi64>) {
  %0 = aten.sqrt(%x) : (tensor<4xi64>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @rsqrt(
// CHECK: aten.rsqrt(%{{.*}}) : (tensor<2x16x1xf32>) -> tensor<2x16x1xf32>
func.func @rsqrt(%x: tensor<2x16x1xf32>) {
  %0 = aten.rsqrt(%x) : (tensor<2x16x1xf32>) -> tensor<2x16x1xf32>
  return
}

// CHECK-LABEL: @reciprocal(
// CHECK: aten.reciprocal(%{{.*}}) : (tensor<4xf64>) -> tensor<4xf64>
func.func @reciprocal(%x: tensor<4xf64>) {
  %0 = aten.reciprocal(%x) : (tensor<4xf64>) -> tensor<4xf64>
  return
}

// CHECK-LABEL: @neg(
// CHECK: aten.neg(%{{.*}}) : (tensor<4xi64>) -> tensor<4xi64>
func.func @neg(%x: tensor<4xi64>) {
  %0 = aten.neg(%x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @abs(
// CHECK: aten.abs(%{{.*}}) : (tensor<4xi64>) -> tensor<4xi64>
func.func @abs(%x: tensor<4xi64>) {
  %0 = aten.abs(%x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @sgn(
// CHECK: aten.sgn(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @sgn(%x: tensor<4xf32>) {
  %0 = aten.sgn(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @sign(
// CHECK: aten.sign(%{{.*}}) : (tensor<4xi32>) -> tensor<4xi32>
func.func @sign(%x: tensor<4xi32>) {
  %0 = aten.sign(%x) : (tensor<4xi32>) -> tensor<4xi32>
  return
}

// CHECK-LABEL: @exp(
// CHECK: aten.exp(%{{.*}}) : (tensor<4xi1>) -> tensor<4xf32>
func.func @exp(%x: tensor<4xi1>) {
  %0 = aten.exp(%x) : (tensor<4xi1>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @log(
// CHECK: aten.log(%{{.*}}) : (tensor<4xf16>) -> tensor<4xf16>
func.func @log(%x: tensor<4xf16>) {
  %0 = aten.log(%x) : (tensor<4xf16>) -> tensor<4xf16>
  return
}

// CHECK-LABEL: @log1p(
// CHECK: aten.log1p(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @log1p(%x: tensor<4xf32>) {
  %0 = aten.log1p(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @sin(
// CHECK: aten.sin(%{{.*}}) : (tensor<1x16x8xf32>) -> tensor<1x16x8xf32>
func.func @sin(%x: tensor<1x16x8xf32>) {
  %0 = aten.sin(%x) : (tensor<1x16x8xf32>) -> tensor<1x16x8xf32>
  return
}

// CHECK-LABEL: @cos(
// CHECK: aten.cos(%{{.*}}) : (tensor<1x16x8xf32>) -> tensor<1x16x8xf32>
func.func @cos(%x: tensor<1x16x8xf32>) {
  %0 = aten.cos(%x) : (tensor<1x16x8xf32>) -> tensor<1x16x8xf32>
  return
}

// CHECK-LABEL: @erf(
// CHECK: aten.erf(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
func.func @erf(%x: tensor<4xf32>) {
  %0 = aten.erf(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @pow_scalar(
// CHECK: aten.pow_scalar(self = 2, %{{.*}}) : (tensor<4xi64>) -> tensor<4xi64>
func.func @pow_scalar(%x: tensor<4xi64>) {
  %0 = aten.pow_scalar(self = 2, %x) : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @pow_scalar_2(
// CHECK: aten.pow_scalar(self = 2.500000e+00, %{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @pow_scalar_2(%x: tensor<4x8xf32>) {
  %0 = aten.pow_scalar(self = 2.5, %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @expm1(
// CHECK: aten.expm1(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @expm1(%x: tensor<4x8xf32>) {
  %0 = aten.expm1(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @xlogy(
// CHECK: aten.xlogy(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @xlogy(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.xlogy(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @floor(
// CHECK: aten.floor(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @floor(%x: tensor<4x8xf32>) {
  %0 = aten.floor(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @ceil(
// CHECK: aten.ceil(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @ceil(%x: tensor<4x8xf32>) {
  %0 = aten.ceil(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @round(
// CHECK: aten.round(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @round(%x: tensor<4x8xf32>) {
  %0 = aten.round(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @trunc(
// CHECK: aten.trunc(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @trunc(%x: tensor<4x8xf32>) {
  %0 = aten.trunc(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @tan(
// CHECK: aten.tan(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @tan(%a: tensor<4x8xf32>) {
  %0 = aten.tan(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @asin(
// CHECK: aten.asin(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @asin(%a: tensor<4x8xf32>) {
  %0 = aten.asin(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @acos(
// CHECK: aten.acos(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @acos(%a: tensor<4x8xf32>) {
  %0 = aten.acos(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @atan(
// CHECK: aten.atan(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @atan(%a: tensor<4x8xf32>) {
  %0 = aten.atan(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @log2(
// CHECK: aten.log2(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @log2(%a: tensor<4x8xf32>) {
  %0 = aten.log2(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @floor_divide(
// CHECK: aten.floor_divide(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @floor_divide(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.floor_divide(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @floor_divide_scalar(
// CHECK: aten.floor_divide_scalar(%{{.*}}, other = 2) : (tensor<4x8xi64>) -> tensor<4x8xi64>
func.func @floor_divide_scalar(%a: tensor<4x8xi64>) {
  %0 = aten.floor_divide_scalar(%a, other = 2) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}

// CHECK-LABEL: @remainder(
// CHECK: aten.remainder(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @remainder(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.remainder(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @remainder_scalar(
// CHECK: aten.remainder_scalar(%{{.*}}, other = 3) : (tensor<4x8xi64>) -> tensor<4x8xi64>
func.func @remainder_scalar(%a: tensor<4x8xi64>) {
  %0 = aten.remainder_scalar(%a, other = 3) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  return
}
