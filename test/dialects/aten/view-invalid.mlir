// Views: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @alias(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.alias' op expects a result of type 'tensor<4xf32>', found 'tensor<4xf64>'}}
  %0 = aten.alias(%x) : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @detach(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.detach' op expects a result of type 'tensor<4xf32>', found 'tensor<2x2xf32>'}}
  %0 = aten.detach(%x) : (tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @view(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects non-negative sizes in `size` and at most one -1, found [-1, -1]}}
  %0 = aten.view(%x, size = [-1, -1]) : (tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @view_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects non-negative sizes in `size` and at most one -1, found [-2]}}
  %0 = aten.view(%x, size = [-2]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @view_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects `size` to have the 4 elements of `self`, found [3]}}
  %0 = aten.view(%x, size = [3]) : (tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @view_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects `size` to have the 4 elements of `self`, found [3, -1]}}
  %0 = aten.view(%x, size = [3, -1]) : (tensor<4xf32>) -> tensor<3x1xf32>
  return
}

// -----

func.func @view_5(%x: tensor<0xf32>) {
  // expected-error @+1 {{'aten.view' op expects `size` to have the 0 elements of `self`, found [0, -1]}}
  %0 = aten.view(%x, size = [0, -1]) : (tensor<0xf32>) -> tensor<0x1xf32>
  return
}

// -----

func.func @view_6(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects a result of type 'tensor<2x2xf32>', found 'tensor<4x1xf32>'}}
  %0 = aten.view(%x, size = [2, 2]) : (tensor<4xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @view_7(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.view' op expects a result of type 'tensor<2x2xf32>', found 'tensor<2x2xi32>'}}
  %0 = aten.view(%x, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xi32>
  return
}

// -----

func.func @expand(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.expand' op expects `size` with at least the 2 dimensions of `self`, found [4]}}
  %0 = aten.expand(%x, size = [4]) : (tensor<4x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @expand_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.expand' op expects non-negative sizes in `size`, or -1 for a dimension of `self`, found [-1, 4]}}
  %0 = aten.expand(%x, size = [-1, 4]) : (tensor<4xf32>) -> tensor<1x4xf32>
  return
}

// -----

func.func @expand_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.expand' op cannot expand 'tensor<4xf32>' to [2, 8]}}
  %0 = aten.expand(%x, size = [2, 8]) : (tensor<4xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @expand_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.expand' op expects a result of type 'tensor<2x4xf32>', found 'tensor<2x8xf32>'}}
  %0 = aten.expand(%x, size = [2, -1]) : (tensor<4xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @t(%x: tensor<2x3x4xf32>) {
  // expected-error @+1 {{'aten.t' op expects at most two dimensions, found 'tensor<2x3x4xf32>'}}
  %0 = aten.t(%x) : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  return
}

// -----

func.func @t_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.t' op expects a result of type 'tensor<8x4xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @transpose(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.transpose' op expects `dim0` in [-2, 1], found 3}}
  %0 = aten.transpose(%x, dim0 = 3, dim1 = 0) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @transpose_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.transpose' op expects `dim1` in [-2, 1], found -3}}
  %0 = aten.transpose(%x, dim0 = 0, dim1 = -3) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @transpose_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.transpose' op expects a result of type 'tensor<8x4xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.transpose(%x, dim0 = 0, dim1 = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @permute(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.permute' op expects one element in `dims` for each of 2 dimensions, found [0]}}
  %0 = aten.permute(%x, dims = [0]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @permute_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.permute' op expects `dims` in [-2, 1], found 2}}
  %0 = aten.permute(%x, dims = [0, 2]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @permute_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.permute' op lists dimension 0 twice in `dims`}}
  %0 = aten.permute(%x, dims = [0, -2]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @permute_4(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.permute' op expects a result of type 'tensor<8x4xf32>', found 'tensor<4x8xf32>'}}
  %0 = aten.permute(%x, dims = [1, 0]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @unsqueeze(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.unsqueeze' op expects `dim` in [-3, 2], found 3}}
  %0 = aten.unsqueeze(%x, dim = 3) : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  return
}

// -----

func.func @unsqueeze_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.unsqueeze' op expects a result of type 'tensor<4x1x8xf32>', found 'tensor<4x8x1xf32>'}}
  %0 = aten.unsqueeze(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
  return
}

// -----

func.func @squeeze(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'aten.squeeze' op expects a result of type 'tensor<4xf32>', found 'tensor<1x4xf32>'}}
  %0 = aten.squeeze(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

func.func @squeeze_dim(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'aten.squeeze_dim' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.squeeze_dim(%x, dim = 2) : (tensor<1x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @squeeze_dim_2(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'aten.squeeze_dim' op expects a result of type 'tensor<1x4xf32>', found 'tensor<4xf32>'}}
  %0 = aten.squeeze_dim(%x, dim = 1) : (tensor<1x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @squeeze_dims(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'aten.squeeze_dims' op lists dimension 0 twice in `dim`}}
  %0 = aten.squeeze_dims(%x, dim = [0, 0]) : (tensor<1x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @squeeze_dims_2(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'aten.squeeze_dims' op expects a result of type 'tensor<4xf32>', found 'tensor<1x4xf32>'}}
  %0 = aten.squeeze_dims(%x, dim = [0]) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

func.func @view_8(%x: tensor<0xf32>) {
  // expected-error @+1 {{'aten.view' op expects sizes in `size` whose product does not overflow, found [4611686018427387904, 4]}}
  %0 = aten.view(%x, size = [4611686018427387904, 4]) : (tensor<0xf32>) -> tensor<4611686018427387904x4xf32>
  return
}
