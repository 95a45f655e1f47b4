// Counts, stable sorts and products by group: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @grouped_rows(
// CHECK: aten._grouped_mm(%{{.*}}, %{{.*}}, %{{.*}}, none) : (tensor<12x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
func.func @grouped_rows(%a: tensor<12x16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi32>) {
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
  return
}

// CHECK-LABEL: @grouped_sums(
// CHECK: aten._grouped_mm(%{{.*}}, %{{.*}}, %{{.*}}, none) : (tensor<12x16xf32>, tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x12x8xf32>
func.func @grouped_sums(%a: tensor<12x16xf32>, %b: tensor<16x8xf32>, %e: tensor<4xi32>) {
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x12x8xf32>
  return
}

// CHECK-LABEL: @grouped_columns(
// CHECK: aten._grouped_mm(%{{.*}}, %{{.*}}, %{{.*}}, none) : (tensor<4x12x16xf32>, tensor<16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
func.func @grouped_columns(%a: tensor<4x12x16xf32>, %b: tensor<16x8xf32>, %e: tensor<4xi32>) {
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<4x12x16xf32>, tensor<16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
  return
}

// CHECK-LABEL: @grouped_batches(
// CHECK: aten._grouped_mm(%{{.*}}, %{{.*}}, none, none) : (tensor<4x12x16xf32>, tensor<4x16x8xf32>) -> tensor<4x12x8xf32>
func.func @grouped_batches(%a: tensor<4x12x16xf32>, %b: tensor<4x16x8xf32>) {
  %0 = aten._grouped_mm(%a, %b, none, none) : (tensor<4x12x16xf32>, tensor<4x16x8xf32>) -> tensor<4x12x8xf32>
  return
}

// CHECK-LABEL: @grouped_half(
// CHECK: aten._grouped_mm(%{{.*}}, %{{.*}}, %{{.*}}, none, out_dtype = bf16) : (tensor<12x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<12x8xbf16>
func.func @grouped_half(%a: tensor<12x16xbf16>, %b: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  %0 = aten._grouped_mm(%a, %b, %e, none, out_dtype = bf16) : (tensor<12x16xbf16>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<12x8xbf16>
  return
}

// CHECK-LABEL: @sort_stable(
// CHECK: aten.sort_stable(%{{.*}}, stable = true) : (tensor<32xi64>) -> (tensor<32xi64>, tensor<32xi64>)
func.func @sort_stable(%x: tensor<32xi64>) {
  %0:2 = aten.sort_stable(%x, stable = true) : (tensor<32xi64>) -> (tensor<32xi64>, tensor<32xi64>)
  return
}

// CHECK-LABEL: @sort_stable_2(
// CHECK: aten.sort_stable(%{{.*}}, stable = true, dim = 0, descending = true) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
func.func @sort_stable_2(%x: tensor<4x8xf32>) {
  %0:2 = aten.sort_stable(%x, stable = true, dim = 0, descending = true) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return
}

// CHECK-LABEL: @histc(
// CHECK: aten.histc(%{{.*}}, bins = 4, min = -2, max = 2.000000e+00) : (tensor<4x8xf32>) -> tensor<4xf32>
func.func @histc(%x: tensor<4x8xf32>) {
  %0 = aten.histc(%x, bins = 4, min = -2, max = 2.0) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: @histc_2(
// CHECK: aten.histc(%{{.*}}) : (tensor<32xf64>) -> tensor<100xf64>
func.func @histc_2(%x: tensor<32xf64>) {
  %0 = aten.histc(%x) : (tensor<32xf64>) -> tensor<100xf64>
  return
}

// CHECK-LABEL: @bincount(
// CHECK: aten.bincount(%{{.*}}, none, minlength = 8) : (tensor<32xi64>) -> tensor<8xi64>
func.func @bincount(%x: tensor<32xi64>) {
  %0 = aten.bincount(%x, none, minlength = 8) : (tensor<32xi64>) -> tensor<8xi64>
  return
}

// CHECK-LABEL: @bincount_2(
// CHECK: aten.bincount(%{{.*}}, %{{.*}}, minlength = 8) : (tensor<32xi32>, tensor<32xf32>) -> tensor<8xf32>
func.func @bincount_2(%x: tensor<32xi32>, %w: tensor<32xf32>) {
  %0 = aten.bincount(%x, %w, minlength = 8) : (tensor<32xi32>, tensor<32xf32>) -> tensor<8xf32>
  return
}

// CHECK-LABEL: @bincount_3(
// CHECK: aten.bincount(%{{.*}}, %{{.*}}, minlength = 8) : (tensor<32xi64>, tensor<32xf16>) -> tensor<8xf64>
func.func @bincount_3(%x: tensor<32xi64>, %w: tensor<32xf16>) {
  %0 = aten.bincount(%x, %w, minlength = 8) : (tensor<32xi64>, tensor<32xf16>) -> tensor<8xf64>
  return
}
