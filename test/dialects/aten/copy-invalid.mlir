// Copies, conversions, concatenations, triangles: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @clone(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.clone' op expects `memory_format` to be "contiguous_format", "preserve_format", "channels_last" or "channels_last_3d", found "channels_first"}}
  %0 = aten.clone(%x, memory_format = "channels_first") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @clone_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.clone' op expects a result of type 'tensor<4xf32>', found 'tensor<4xbf16>'}}
  %0 = aten.clone(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

func.func @lift_fresh_copy(%x: tensor<f32>) {
  // expected-error @+1 {{'aten.lift_fresh_copy' op expects a result of type 'tensor<f32>', found 'tensor<1xf32>'}}
  %0 = aten.lift_fresh_copy(%x) : (tensor<f32>) -> tensor<1xf32>
  return
}

// -----

func.func @_to_copy(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._to_copy' op expects `dtype` to be a PyTorch dtype, found 'i4'}}
  %0 = aten._to_copy(%x, dtype = i4) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_to_copy_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._to_copy' op expects a result of type 'tensor<4xbf16>', found 'tensor<4xf32>'}}
  %0 = aten._to_copy(%x, dtype = bf16) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @_to_copy_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._to_copy' op expects a result of type 'tensor<4xbf16>', found 'tensor<2x2xbf16>'}}
  %0 = aten._to_copy(%x, dtype = bf16) : (tensor<4xf32>) -> tensor<2x2xbf16>
  return
}

// -----

func.func @_unsafe_view(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._unsafe_view' op expects `size` to have the 4 elements of `self`, found [3, -1]}}
  %0 = aten._unsafe_view(%x, size = [3, -1]) : (tensor<4xf32>) -> tensor<3x1xf32>
  return
}

// -----

func.func @_unsafe_view_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten._unsafe_view' op expects a result of type 'tensor<2x2xf32>', found 'tensor<4xf32>'}}
  %0 = aten._unsafe_view(%x, size = [2, 2]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @cat() {
  // expected-error @+1 {{'aten.cat' op expects at least one tensor}}
  %0 = aten.cat([]) : () -> tensor<4xf32>
  return
}

// -----

func.func @cat_2(%a: tensor<f32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.cat' op expects tensors of at least one dimension, found 'tensor<f32>'}}
  %0 = aten.cat([%a, %b]) : (tensor<f32>, tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @cat_3(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.cat' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.cat([%a, %b], dim = 2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @cat_4(%a: tensor<4x8xf32>, %b: tensor<5x8xf32>) {
  // expected-error @+1 {{'aten.cat' op expects tensors that differ only in dimension 1, found 'tensor<4x8xf32>' and 'tensor<5x8xf32>'}}
  %0 = aten.cat([%a, %b], dim = 1) : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @cat_5(%a: tensor<4x8xf32>, %b: tensor<4x8x1xf32>) {
  // expected-error @+1 {{'aten.cat' op expects tensors that differ only in dimension 1, found 'tensor<4x8xf32>' and 'tensor<4x8x1xf32>'}}
  %0 = aten.cat([%a, %b], dim = 1) : (tensor<4x8xf32>, tensor<4x8x1xf32>) -> tensor<4x16xf32>
  return
}

// -----

func.func @cat_6(%a: tensor<4x8xf32>, %b: tensor<4x2xf32>) {
  // expected-error @+1 {{'aten.cat' op expects a result of type 'tensor<4x10xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.cat([%a, %b], dim = 1) : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cat_7(%a: tensor<4x8xf32>, %b: tensor<4x2xf64>) {
  // expected-error @+1 {{'aten.cat' op expects a result of type 'tensor<4x10xf64>', found 'tensor<4x10xf32>'}}
  %0 = aten.cat([%a, %b], dim = 1) : (tensor<4x8xf32>, tensor<4x2xf64>) -> tensor<4x10xf32>
  return
}

// -----

func.func @cat_8(%a: tensor<0xf32>, %b: tensor<0xf32>) {
  // expected-error @+1 {{'aten.cat' op expects a result of type 'tensor<0xf32>', found 'tensor<4xf32>'}}
  %0 = aten.cat([%a, %b]) : (tensor<0xf32>, tensor<0xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @stack() {
  // expected-error @+1 {{'aten.stack' op expects at least one tensor}}
  %0 = aten.stack([]) : () -> tensor<4xf32>
  return
}

// -----

func.func @stack_2(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'aten.stack' op expects tensors of the same shape, found 'tensor<4xf32>' and 'tensor<5xf32>'}}
  %0 = aten.stack([%a, %b]) : (tensor<4xf32>, tensor<5xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @stack_3(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.stack' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.stack([%a, %b], dim = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @stack_4(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'aten.stack' op expects a result of type 'tensor<4x2xf32>', found 'tensor<2x4xf32>'}}
  %0 = aten.stack([%a, %b], dim = 1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @repeat(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.repeat' op expects in `repeats` at least 2 non-negative numbers, found [2]}}
  %0 = aten.repeat(%x, repeats = [2]) : (tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @repeat_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.repeat' op expects in `repeats` at least 1 non-negative numbers, found [-1]}}
  %0 = aten.repeat(%x, repeats = [-1]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @repeat_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.repeat' op expects a result of type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = aten.repeat(%x, repeats = [2]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @tril(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.tril' op expects at least two dimensions, found 'tensor<4xf32>'}}
  %0 = aten.tril(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @triu(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.triu' op expects a result of type 'tensor<4x4xf32>', found 'tensor<4x4xi1>'}}
  %0 = aten.triu(%x) : (tensor<4x4xf32>) -> tensor<4x4xi1>
  return
}

// -----

func.func @repeat_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.repeat' op repeats 'tensor<4xf32>' to a size that overflows}}
  %0 = aten.repeat(%x, repeats = [4611686018427387904]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @flip(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.flip' op expects `dims` in [-2, 1], found 2}}
  %0 = aten.flip(%x, dims = [2]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @flip_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.flip' op expects a result of type 'tensor<4x8xf32>', found 'tensor<8x4xf32>'}}
  %0 = aten.flip(%x, dims = [0]) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @roll(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.roll' op expects in `shifts` one element for each of `dims`, or one where there are none, found [1, 2] and [0]}}
  %0 = aten.roll(%x, shifts = [1, 2], dims = [0]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @copy(%x: tensor<4xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'aten.copy' op expects a `src` that broadcasts to the shape of `self`, found 'tensor<3xf32>' and 'tensor<4xf32>'}}
  %0 = aten.copy(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @copy_2(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{'aten.copy' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.copy(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf64>
  return
}

// -----

func.func @fill(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.fill_tensor' op expects `value` to have 0 dimensions, found 'tensor<4xf32>'}}
  %0 = aten.fill_tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @fill_2(%x: tensor<4xf32>, %v: tensor<f64>) {
  // expected-error @+1 {{'aten.fill_tensor' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.fill_tensor(%x, %v) : (tensor<4xf32>, tensor<f64>) -> tensor<4xf64>
  return
}
