// Copies, conversions, concatenations, triangles: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @clone(
// CHECK: aten.clone(%{{.*}}) : (tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
func.func @clone(%x: tensor<2x32x32xf32>) {
  %0 = aten.clone(%x) : (tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  return
}

// CHECK-LABEL: @clone_2(
// CHECK: aten.clone(%{{.*}}, memory_format = "channels_last") : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
func.func @clone_2(%x: tensor<2x3x4x4xf32>) {
  %0 = aten.clone(%x, memory_format = "channels_last") : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return
}

// CHECK-LABEL: @lift_fresh_copy(
// CHECK: aten.lift_fresh_copy(%{{.*}}) : (tensor<f32>) -> tensor<f32>
func.func @lift_fresh_copy(%x: tensor<f32>) {
  %0 = aten.lift_fresh_copy(%x) : (tensor<f32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @_to_copy(
// CHECK: aten._to_copy(%{{.*}}, dtype = bf16) : (tensor<96x32xf32>) -> tensor<96x32xbf16>
func.func @_to_copy(%x: tensor<96x32xf32>) {
  %0 = aten._to_copy(%x, dtype = bf16) : (tensor<96x32xf32>) -> tensor<96x32xbf16>
  return
}

// CHECK-LABEL: @_to_copy_2(
// CHECK: aten._to_copy(%{{.*}}, dtype = i1, non_blocking = true) : (tensor<4xf32>) -> tensor<4xi1>
func.func @_to_copy_2(%x: tensor<4xf32>) {
  %0 = aten._to_copy(%x, dtype = i1, non_blocking = true) : (tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @_to_copy_3(
// CHECK: aten._to_copy(%{{.*}}, memory_format = "preserve_format") : (tensor<4xf32>) -> tensor<4xf32>
func.func @_to_copy_3(%x: tensor<4xf32>) {
  %0 = aten._to_copy(%x, memory_format = "preserve_format") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @_unsafe_view(
// CHECK: aten._unsafe_view(%{{.*}}, size = [2, 32, 256]) : (tensor<64x256xf32>) -> tensor<2x32x256xf32>
func.func @_unsafe_view(%x: tensor<64x256xf32>) {
  %0 = aten._unsafe_view(%x, size = [2, 32, 256]) : (tensor<64x256xf32>) -> tensor<2x32x256xf32>
  return
}

// CHECK-LABEL: @cat(
// CHECK: aten.cat([%{{.*}}, %{{.*}}], dim = -1) : (tensor<2x1xi64>, tensor<2x16xi64>) -> tensor<2x17xi64>
func.func @cat(%a: tensor<2x1xi64>, %b: tensor<2x16xi64>) {
  %0 = aten.cat([%a, %b], dim = -1) : (tensor<2x1xi64>, tensor<2x16xi64>) -> tensor<2x17xi64>
  return
}

// CHECK-LABEL: @cat_2(
// CHECK: aten.cat([%{{.*}}, %{{.*}}]) : (tensor<160x32xf32>, tensor<1x32xf32>) -> tensor<161x32xf32>
func.func @cat_2(%a: tensor<160x32xf32>, %b: tensor<1x32xf32>) {
  %0 = aten.cat([%a, %b]) : (tensor<160x32xf32>, tensor<1x32xf32>) -> tensor<161x32xf32>
  return
}

// CHECK-LABEL: @cat_3(
// CHECK: aten.cat([%{{.*}}, %{{.*}}, %{{.*}}], dim = 1) : (tensor<0xf32>, tensor<4x2xf32>, tensor<4x3xf64>) -> tensor<4x5xf64>
func.func @cat_3(%a: tensor<0xf32>, %b: tensor<4x2xf32>, %c: tensor<4x3xf64>) {
  %0 = aten.cat([%a, %b, %c], dim = 1) : (tensor<0xf32>, tensor<4x2xf32>, tensor<4x3xf64>) -> tensor<4x5xf64>
  return
}

// CHECK-LABEL: @stack(
// CHECK: aten.stack([%{{.*}}, %{{.*}}, %{{.*}}], dim = -1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x3xf32>
func.func @stack(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<4x8xf32>) {
  %0 = aten.stack([%a, %b, %c], dim = -1) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x3xf32>
  return
}

// CHECK-LABEL: @repeat(
// CHECK: aten.repeat(%{{.*}}, repeats = [2, 3]) : (tensor<4xf32>) -> tensor<2x12xf32>
func.func @repeat(%x: tensor<4xf32>) {
  %0 = aten.repeat(%x, repeats = [2, 3]) : (tensor<4xf32>) -> tensor<2x12xf32>
  return
}

// CHECK-LABEL: @tril(
// CHECK: aten.tril(%{{.*}}) : (tensor<32x32xi1>) -> tensor<32x32xi1>
func.func @tril(%x: tensor<32x32xi1>) {
  %0 = aten.tril(%x) : (tensor<32x32xi1>) -> tensor<32x32xi1>
  return
}

// CHECK-LABEL: @triu(
// CHECK: aten.triu(%{{.*}}, diagonal = 1) : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
func.func @triu(%x: tensor<2x8x8xf32>) {
  %0 = aten.triu(%x, diagonal = 1) : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return
}

// CHECK-LABEL: @flip(
// CHECK: aten.flip(%{{.*}}, dims = [0, -1]) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
func.func @flip(%x: tensor<2x4x8xf32>) {
  %0 = aten.flip(%x, dims = [0, -1]) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return
}

// CHECK-LABEL: @flip_2(
// CHECK: aten.flip(%{{.*}}, dims = []) : (tensor<4xi1>) -> tensor<4xi1>
func.func @flip_2(%x: tensor<4xi1>) {
  %0 = aten.flip(%x, dims = []) : (tensor<4xi1>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: @roll(
// CHECK: aten.roll(%{{.*}}, shifts = [1, -2], dims = [0, -1]) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
func.func @roll(%x: tensor<4x6x8xf32>) {
  %0 = aten.roll(%x, shifts = [1, -2], dims = [0, -1]) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  return
}

// CHECK-LABEL: @roll_2(
// CHECK: aten.roll(%{{.*}}, shifts = [3]) : (tensor<4x6xi64>) -> tensor<4x6xi64>
func.func @roll_2(%x: tensor<4x6xi64>) {
  %0 = aten.roll(%x, shifts = [3]) : (tensor<4x6xi64>) -> tensor<4x6xi64>
  return
}

// CHECK-LABEL: @copy(
// CHECK: aten.copy(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
func.func @copy(%x: tensor<4x8xf32>, %y: tensor<8xf32>) {
  %0 = aten.copy(%x, %y) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: @copy_to_integers(
// CHECK: aten.copy(%{{.*}}, %{{.*}}) : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xi64>
func.func @copy_to_integers(%x: tensor<4xi64>, %y: tensor<4xf32>) {
  %0 = aten.copy(%x, %y) : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xi64>
  return
}

// CHECK-LABEL: @fill_tensor(
// CHECK: aten.fill_tensor(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
func.func @fill_tensor(%x: tensor<4x8xf32>, %v: tensor<f32>) {
  %0 = aten.fill_tensor(%x, %v) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return
}
