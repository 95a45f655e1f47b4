// Reading and writing at named places: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @embedding(%w: tensor<256xf32>, %i: tensor<2x16xi64>) {
  // expected-error @+1 {{'aten.embedding' op expects `weight` to have 2 dimensions, found 'tensor<256xf32>'}}
  %0 = aten.embedding(%w, %i) : (tensor<256xf32>, tensor<2x16xi64>) -> tensor<2x16xf32>
  return
}

// -----

func.func @embedding_2(%w: tensor<256x32xf32>, %i: tensor<2x16xf32>) {
  // expected-error @+1 {{'aten.embedding' op expects `indices` to have dtype i64 or i32, found 'tensor<2x16xf32>'}}
  %0 = aten.embedding(%w, %i) : (tensor<256x32xf32>, tensor<2x16xf32>) -> tensor<2x16x32xf32>
  return
}

// -----

func.func @embedding_3(%w: tensor<256x32xf32>, %i: tensor<2x16xi64>) {
  // expected-error @+1 {{'aten.embedding' op expects a result of type 'tensor<2x16x32xf32>', found 'tensor<2x16x256xf32>'}}
  %0 = aten.embedding(%w, %i) : (tensor<256x32xf32>, tensor<2x16xi64>) -> tensor<2x16x256xf32>
  return
}

// -----

func.func @embedding_dense_backward(%g: tensor<16x32xf32>, %i: tensor<16xi1>) {
  // expected-error @+1 {{'aten.embedding_dense_backward' op expects `indices` to have dtype i64 or i32, found 'tensor<16xi1>'}}
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = 32, padding_idx = -1, scale_grad_by_freq = false) : (tensor<16x32xf32>, tensor<16xi1>) -> tensor<32x32xf32>
  return
}

// -----

func.func @embedding_dense_backward_2(%g: tensor<15x32xf32>, %i: tensor<16xi64>) {
  // expected-error @+1 {{'aten.embedding_dense_backward' op expects `grad_output` to have the shape of `indices` and one more dimension, found 'tensor<15x32xf32>' and 'tensor<16xi64>'}}
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = 32, padding_idx = -1, scale_grad_by_freq = false) : (tensor<15x32xf32>, tensor<16xi64>) -> tensor<32x32xf32>
  return
}

// -----

func.func @embedding_dense_backward_3(%g: tensor<16x32xf32>, %i: tensor<16xi64>) {
  // expected-error @+1 {{'aten.embedding_dense_backward' op expects a non-negative `num_weights`, found -1}}
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = -1, padding_idx = -1, scale_grad_by_freq = false) : (tensor<16x32xf32>, tensor<16xi64>) -> tensor<32x32xf32>
  return
}

// -----

func.func @embedding_dense_backward_4(%g: tensor<16x32xf32>, %i: tensor<16xi64>) {
  // expected-error @+1 {{'aten.embedding_dense_backward' op expects a result of type 'tensor<64x32xf32>', found 'tensor<32x32xf32>'}}
  %0 = aten.embedding_dense_backward(%g, %i, num_weights = 64, padding_idx = -1, scale_grad_by_freq = false) : (tensor<16x32xf32>, tensor<16xi64>) -> tensor<32x32xf32>
  return
}

// -----

func.func @index(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.index' op expects at least one index}}
  %0 = aten.index(%x, [none]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_2(%x: tensor<4xf32>, %i: tensor<2xi64>, %j: tensor<2xi64>) {
  // expected-error @+1 {{'aten.index' op expects at most 1 indices, one for each dimension of `self`, found 2}}
  %0 = aten.index(%x, [%i, %j]) : (tensor<4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @index_3(%x: tensor<4xf32>, %m: tensor<4xi1>) {
  // expected-error @+1 {{'aten.index' op expects indices that are not masks, as the shape of the result would depend on data, found 'tensor<4xi1>'}}
  %0 = aten.index(%x, [%m]) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
  return
}

// -----

func.func @index_4(%x: tensor<4xf32>, %i: tensor<2xf32>) {
  // expected-error @+1 {{'aten.index' op expects `indices` to have dtype i64 or i32, found 'tensor<2xf32>'}}
  %0 = aten.index(%x, [%i]) : (tensor<4xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @index_5(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %j: tensor<3xi64>) {
  // expected-error @+1 {{'aten.index' op expects operands whose shapes broadcast, found 'tensor<2xi64>' and 'tensor<3xi64>'}}
  %0 = aten.index(%x, [%i, %j]) : (tensor<4x8xf32>, tensor<2xi64>, tensor<3xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @index_6(%x: tensor<4x8x6xf32>, %i: tensor<3xi64>, %j: tensor<3xi64>) {
  // expected-error @+1 {{'aten.index' op expects a result of type 'tensor<3x8xf32>', found 'tensor<8x3xf32>'}}
  %0 = aten.index(%x, [%i, none, %j]) : (tensor<4x8x6xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<8x3xf32>
  return
}

// -----

func.func @index_put(%x: tensor<4x8xf32>, %i: tensor<2xi16>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten.index_put' op expects `indices` to have dtype i64 or i32, found 'tensor<2xi16>'}}
  %0 = aten.index_put(%x, [%i], %v) : (tensor<4x8xf32>, tensor<2xi16>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_put_2(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %v: tensor<8xf64>) {
  // expected-error @+1 {{'aten.index_put' op expects `values` to have the dtype of `self`, 'f32', found 'tensor<8xf64>'}}
  %0 = aten.index_put(%x, [%i], %v) : (tensor<4x8xf32>, tensor<2xi64>, tensor<8xf64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_put_3(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %v: tensor<3x8xf32>) {
  // expected-error @+1 {{'aten.index_put' op expects `values` to broadcast to [2, 8], found 'tensor<3x8xf32>'}}
  %0 = aten.index_put(%x, [%i], %v) : (tensor<4x8xf32>, tensor<2xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_put_4(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten.index_put' op expects a result of type 'tensor<4x8xf32>', found 'tensor<2x8xf32>'}}
  %0 = aten.index_put(%x, [%i], %v) : (tensor<4x8xf32>, tensor<2xi64>, tensor<8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @index_select(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'aten.index_select' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.index_select(%x, dim = 2, %i) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @index_select_2(%x: tensor<4x8xf32>, %i: tensor<1x2xi64>) {
  // expected-error @+1 {{'aten.index_select' op expects `index` of at most one dimension, found 'tensor<1x2xi64>'}}
  %0 = aten.index_select(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<1x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @index_select_scalar(%x: tensor<f32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'aten.index_select' op expects `index` of one element where `self` has no dimensions, found 'tensor<2xi64>'}}
  %0 = aten.index_select(%x, dim = 0, %i) : (tensor<f32>, tensor<2xi64>) -> tensor<f32>
  return
}

// -----

func.func @index_select_3(%x: tensor<4x8xf32>, %i: tensor<2xi8>) {
  // expected-error @+1 {{'aten.index_select' op expects `index` to have dtype i64 or i32, found 'tensor<2xi8>'}}
  %0 = aten.index_select(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<2xi8>) -> tensor<4x2xf32>
  return
}

// -----

func.func @index_select_4(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'aten.index_select' op expects a result of type 'tensor<4x2xf32>', found 'tensor<2x8xf32>'}}
  %0 = aten.index_select(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  return
}

// -----

func.func @index_add(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %s: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.index_add' op expects `source` of shape [3, 8], found 'tensor<2x8xf32>'}}
  %0 = aten.index_add(%x, dim = 0, %i, %s) : (tensor<4x8xf32>, tensor<3xi64>, tensor<2x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_add_2(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %s: tensor<3x8xi64>) {
  // expected-error @+1 {{'aten.index_add' op expects `source` to have the dtype of `self`, 'f32', found 'tensor<3x8xi64>'}}
  %0 = aten.index_add(%x, dim = 0, %i, %s) : (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xi64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @index_add_3(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %s: tensor<3x8xf32>) {
  // expected-error @+1 {{'aten.index_add' op expects a result of type 'tensor<4x8xf32>', found 'tensor<3x8xf32>'}}
  %0 = aten.index_add(%x, dim = 0, %i, %s) : (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @gather(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+1 {{'aten.gather' op expects `dim` in [-2, 1], found -3}}
  %0 = aten.gather(%x, dim = -3, %i) : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @gather_2(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'aten.gather' op expects `index` to have 2 dimensions, found 'tensor<2xi64>'}}
  %0 = aten.gather(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @gather_3(%x: tensor<4x8xf32>, %i: tensor<5x2xi64>) {
  // expected-error @+1 {{'aten.gather' op expects `index` not to exceed `self` except in dimension 1, found 'tensor<5x2xi64>' and 'tensor<4x8xf32>'}}
  %0 = aten.gather(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @gather_4(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+1 {{'aten.gather' op expects a result of type 'tensor<4x2xf32>', found 'tensor<4x2xi64>'}}
  %0 = aten.gather(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x2xi64>
  return
}

// -----

func.func @scatter_src(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>, %s: tensor<4x2xf64>) {
  // expected-error @+1 {{'aten.scatter_src' op expects `src` to have the dtype of `self`, 'f32', found 'tensor<4x2xf64>'}}
  %0 = aten.scatter_src(%x, dim = 1, %i, %s) : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf64>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_src_2(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>, %s: tensor<8xf32>) {
  // expected-error @+1 {{'aten.scatter_src' op expects `src` to have 2 dimensions, found 'tensor<8xf32>'}}
  %0 = aten.scatter_src(%x, dim = 1, %i, %s) : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_add(%x: tensor<4x8xf32>, %i: tensor<4x3xi64>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'aten.scatter_add' op expects `src` to be no smaller than `index`, found 'tensor<4x2xf32>' and 'tensor<4x3xi64>'}}
  %0 = aten.scatter_add(%x, dim = 1, %i, %s) : (tensor<4x8xf32>, tensor<4x3xi64>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_add_2(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'aten.scatter_add' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x2xf32>'}}
  %0 = aten.scatter_add(%x, dim = 1, %i, %s) : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @scatter_value(%x: tensor<4x8xf32>, %i: tensor<4x2xf32>) {
  // expected-error @+1 {{'aten.scatter_value' op expects `index` to have dtype i64 or i32, found 'tensor<4x2xf32>'}}
  %0 = aten.scatter_value(%x, dim = 1, %i, value = 1) : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_value_2(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+1 {{'aten.scatter_value' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x8xi64>'}}
  %0 = aten.scatter_value(%x, dim = 1, %i, value = 1) : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x8xi64>
  return
}
