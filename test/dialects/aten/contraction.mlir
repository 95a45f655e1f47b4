// Matrix products: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @mm(
// CHECK: aten.mm(%{{.*}}, %{{.*}}) : (tensor<256x64xf32>, tensor<64x32xf32>) -> tensor<256x32xf32>
func.func @mm(%a: tensor<256x64xf32>, %b: tensor<64x32xf32>) {
  %0 = aten.mm(%a, %b) : (tensor<256x64xf32>, tensor<64x32xf32>) -> tensor<256x32xf32>
  return
}

// CHECK-LABEL: @mm_2(
// CHECK: aten.mm(%{{.*}}, %{{.*}}) : (tensor<0x8xf32>, tensor<8x4xf32>) -> tensor<0x4xf32>
func.func @mm_2(%a: tensor<0x8xf32>, %b: tensor<8x4xf32>) {
  %0 = aten.mm(%a, %b) : (tensor<0x8xf32>, tensor<8x4xf32>) -> tensor<0x4xf32>
  return
}

// CHECK-LABEL: @bmm(
// CHECK: aten.bmm(%{{.*}}, %{{.*}}) : (tensor<4x40x32xf64>, tensor<4x32x128xf64>) -> tensor<4x40x128xf64>
func.func @bmm(%a: tensor<4x40x32xf64>, %b: tensor<4x32x128xf64>) {
  %0 = aten.bmm(%a, %b) : (tensor<4x40x32xf64>, tensor<4x32x128xf64>) -> tensor<4x40x128xf64>
  return
}

// CHECK-LABEL: @addmm(
// CHECK: aten.addmm(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<128xf32>, tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
func.func @addmm(%c: tensor<128xf32>, %a: tensor<64x32xf32>, %b: tensor<32x128xf32>) {
  %0 = aten.addmm(%c, %a, %b) : (tensor<128xf32>, tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
  return
}

// CHECK-LABEL: @addmm_2(
// CHECK: aten.addmm(%{{.*}}, %{{.*}}, %{{.*}}, beta = 5.000000e-01, alpha = 2) : (tensor<64x1xf32>, tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
func.func @addmm_2(%c: tensor<64x1xf32>, %a: tensor<64x32xf32>, %b: tensor<32x128xf32>) {
  %0 = aten.addmm(%c, %a, %b, beta = 0.5, alpha = 2) : (tensor<64x1xf32>, tensor<64x32xf32>, tensor<32x128xf32>) -> tensor<64x128xf32>
  return
}

// CHECK-LABEL: @baddbmm(
// CHECK: aten.baddbmm(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x4x16xf64>, tensor<2x4x8xf64>, tensor<2x8x16xf64>) -> tensor<2x4x16xf64>
func.func @baddbmm(%c: tensor<2x4x16xf64>, %a: tensor<2x4x8xf64>, %b: tensor<2x8x16xf64>) {
  %0 = aten.baddbmm(%c, %a, %b) : (tensor<2x4x16xf64>, tensor<2x4x8xf64>, tensor<2x8x16xf64>) -> tensor<2x4x16xf64>
  return
}

// CHECK-LABEL: @mv(
// CHECK: aten.mv(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
func.func @mv(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  %0 = aten.mv(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @dot(
// CHECK: aten.dot(%{{.*}}, %{{.*}}) : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
func.func @dot(%a: tensor<8xf32>, %b: tensor<8xf32>) {
  %0 = aten.dot(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  return
}
