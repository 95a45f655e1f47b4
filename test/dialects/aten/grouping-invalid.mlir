// Counts, stable sorts and products by group: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @ranks(%a: tensor<16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `self` and `mat2` of two or three dimensions each, found 'tensor<16xf32>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @sum(%a: tensor<12x6xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op cannot multiply `self` and `mat2`, found 'tensor<12x6xf32>' and 'tensor<4x16x8xf32>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x6xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @batches(%a: tensor<3x12x16xf32>, %b: tensor<4x16x8xf32>) {
  // expected-error @+1 {{'aten._grouped_mm' op cannot multiply `self` and `mat2`, found 'tensor<3x12x16xf32>' and 'tensor<4x16x8xf32>'}}
  %0 = aten._grouped_mm(%a, %b, none, none) : (tensor<3x12x16xf32>, tensor<4x16x8xf32>) -> tensor<3x12x8xf32>
  return
}

// -----

func.func @integers(%a: tensor<12x16xi64>, %b: tensor<4x16x8xi64>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `self` to have a floating-point dtype, found 'tensor<12x16xi64>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xi64>, tensor<4x16x8xi64>, tensor<4xi32>) -> tensor<12x8xi64>
  return
}

// -----

func.func @dtypes(%a: tensor<12x16xf32>, %b: tensor<4x16x8xbf16>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `mat2` to have the dtype of `self`, 'f32', found 'tensor<4x16x8xbf16>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<4x16x8xbf16>, tensor<4xi32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @no_ends(%a: tensor<12x16xf32>, %b: tensor<4x16x8xf32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `offs`, the ends of the groups; found none}}
  %0 = aten._grouped_mm(%a, %b, none, none) : (tensor<12x16xf32>, tensor<4x16x8xf32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @needless_ends(%a: tensor<4x12x16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects no `offs` where no dimension is divided, found 'tensor<4xi32>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<4x12x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<4x12x8xf32>
  return
}

// -----

func.func @count_of_ends(%a: tensor<12x16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<5xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `offs` with one element for each of 4 groups, found 'tensor<5xi32>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<4x16x8xf32>, tensor<5xi32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @wide_ends(%a: tensor<12x16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi64>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects `offs` to have dtype i32, found 'tensor<4xi64>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<4x16x8xf32>, tensor<4xi64>) -> tensor<12x8xf32>
  return
}

// -----

func.func @bias(%a: tensor<12x16xf32>, %b: tensor<4x16x8xf32>, %e: tensor<4xi32>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects no `bias`, which PyTorch does not support}}
  %0 = aten._grouped_mm(%a, %b, %e, %c) : (tensor<12x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>, tensor<8xf32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @result(%a: tensor<12x16xf32>, %b: tensor<16x8xf32>, %e: tensor<4xi32>) {
  // expected-error @+1 {{'aten._grouped_mm' op expects a result of type 'tensor<4x12x8xf32>', found 'tensor<12x8xf32>'}}
  %0 = aten._grouped_mm(%a, %b, %e, none) : (tensor<12x16xf32>, tensor<16x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
  return
}

// -----

func.func @sort_stable(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort_stable' op expects `dim` in [-2, 1], found 2}}
  %0:2 = aten.sort_stable(%x, stable = true, dim = 2) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return
}

// -----

func.func @sort_stable_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort_stable' op expects result 0 of type 'tensor<4x8xf32>', found 'tensor<8x4xf32>'}}
  %0:2 = aten.sort_stable(%x, stable = true) : (tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xi64>)
  return
}

// -----

func.func @sort_stable_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort_stable' op expects result 1 of type 'tensor<4x8xi64>', found 'tensor<4x8xi32>'}}
  %0:2 = aten.sort_stable(%x, stable = true) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi32>)
  return
}

// -----

func.func @histc(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.histc' op expects positive `bins`, found 0}}
  %0 = aten.histc(%x, bins = 0) : (tensor<8xf32>) -> tensor<0xf32>
  return
}

// -----

func.func @histc_2(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.histc' op expects `min` at most `max`, found 2.000000e+00 and 1.500000e+00}}
  %0 = aten.histc(%x, bins = 4, min = 2, max = 1.5) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @histc_3(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.histc' op expects a result of type 'tensor<4xf32>', found 'tensor<4xi64>'}}
  %0 = aten.histc(%x, bins = 4) : (tensor<8xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @histc_4(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.histc' op expects finite `min` and `max`}}
  %0 = aten.histc(%x, bins = 4, min = 0, max = 0x7FF0000000000000 : f64) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @bincount(%x: tensor<2x8xi64>) {
  // expected-error @+1 {{'aten.bincount' op expects `self` to have 1 dimensions, found 'tensor<2x8xi64>'}}
  %0 = aten.bincount(%x, none, minlength = 4) : (tensor<2x8xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @bincount_2(%x: tensor<8xf32>) {
  // expected-error @+1 {{'aten.bincount' op expects `self` to have an integer dtype, found 'tensor<8xf32>'}}
  %0 = aten.bincount(%x, none, minlength = 4) : (tensor<8xf32>) -> tensor<4xi64>
  return
}

// -----

func.func @bincount_3(%x: tensor<8xi64>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'aten.bincount' op expects `weights` of shape [8], found 'tensor<4xf32>'}}
  %0 = aten.bincount(%x, %w, minlength = 4) : (tensor<8xi64>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @bincount_4(%x: tensor<8xi64>) {
  // expected-error @+1 {{'aten.bincount' op expects a positive `minlength`, the static size of the result; found 0}}
  %0 = aten.bincount(%x, none) : (tensor<8xi64>) -> tensor<8xi64>
  return
}

// -----

func.func @bincount_5(%x: tensor<8xi64>, %w: tensor<8xf16>) {
  // expected-error @+1 {{'aten.bincount' op expects a result of type 'tensor<4xf64>', found 'tensor<4xf16>'}}
  %0 = aten.bincount(%x, %w, minlength = 4) : (tensor<8xi64>, tensor<8xf16>) -> tensor<4xf16>
  return
}
