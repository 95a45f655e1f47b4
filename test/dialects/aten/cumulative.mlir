// Running products, and their gradient: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @cumprod(
// CHECK: aten.cumprod(%{{.*}}, dim = -1) : (tensor<2x16xi1>) -> tensor<2x16xi64>
func.func @cumprod(%x: tensor<2x16xi1>) {
  %0 = aten.cumprod(%x, dim = -1) : (tensor<2x16xi1>) -> tensor<2x16xi64>
  return
}

// CHECK-LABEL: @cumprod_2(
// CHECK: aten.cumprod(%{{.*}}, dim = 0, dtype = f64) : (tensor<12x4xf32>) -> tensor<12x4xf64>
func.func @cumprod_2(%x: tensor<12x4xf32>) {
  %0 = aten.cumprod(%x, dim = 0, dtype = f64) : (tensor<12x4xf32>) -> tensor<12x4xf64>
  return
}

// CHECK-LABEL: @cumprod_backward(
// CHECK: aten.cumprod_backward(%{{.*}}, %{{.*}}, dim = 1, %{{.*}}) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @cumprod_backward(%g: tensor<4x8xf32>, %x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %0 = aten.cumprod_backward(%g, %x, dim = 1, %y) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
