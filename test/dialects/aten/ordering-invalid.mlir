// Elements by rank: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @topk(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.topk' op expects `dim` in [-2, 1], found 2}}
  %0:2 = aten.topk(%x, k = 2, dim = 2) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  return
}

// -----

func.func @topk_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.topk' op expects `k` between 0 and 8, found 9}}
  %0:2 = aten.topk(%x, k = 9) : (tensor<4x8xf32>) -> (tensor<4x9xf32>, tensor<4x9xi64>)
  return
}

// -----

func.func @topk_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.topk' op expects result 0 of type 'tensor<4x2xf32>', found 'tensor<4x8xf32>'}}
  %0:2 = aten.topk(%x, k = 2) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xi64>)
  return
}

// -----

func.func @topk_4(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.topk' op expects result 1 of type 'tensor<4x2xi64>', found 'tensor<4x2xi32>'}}
  %0:2 = aten.topk(%x, k = 2) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}

// -----

func.func @sort(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort' op expects `dim` in [-2, 1], found -3}}
  %0:2 = aten.sort(%x, dim = -3) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return
}

// -----

func.func @sort_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort' op expects result 0 of type 'tensor<4x8xf32>', found 'tensor<8x4xf32>'}}
  %0:2 = aten.sort(%x) : (tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4x8xi64>)
  return
}

// -----

func.func @sort_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.sort' op expects result 1 of type 'tensor<4x8xi64>', found 'tensor<4x8xf32>'}}
  %0:2 = aten.sort(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// -----

func.func @max_dim(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.max_dim' op expects `dim` in [-2, 1], found 5}}
  %0:2 = aten.max_dim(%x, dim = 5) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  return
}

// -----

func.func @max_dim_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.max_dim' op expects result 0 of type 'tensor<4xf32>', found 'tensor<4x1xf32>'}}
  %0:2 = aten.max_dim(%x, dim = 1) : (tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x1xi64>)
  return
}

// -----

func.func @max_dim_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.max_dim' op expects result 1 of type 'tensor<4x1xi64>', found 'tensor<4xi64>'}}
  %0:2 = aten.max_dim(%x, dim = 1, keepdim = true) : (tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4xi64>)
  return
}
