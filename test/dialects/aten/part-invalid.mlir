// Slices, selections and splits: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @slice(%x: tensor<f32>) {
  // expected-error @+1 {{'aten.slice' op expects at least one dimension, found none}}
  %0 = aten.slice(%x) : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @slice_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.slice' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.slice(%x, dim = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.slice' op expects `step` of at least 1, found 0}}
  %0 = aten.slice(%x, step = 0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_4(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.slice' op expects a result of type 'tensor<4x5xf32>', found 'tensor<4x6xf32>'}}
  %0 = aten.slice(%x, dim = 1, start = 2, end = -1) : (tensor<4x8xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @select(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.select' op expects `dim` in [-2, 1], found -3}}
  %0 = aten.select(%x, dim = -3, index = 0) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @select_2(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.select' op expects `index` within a dimension of size 4, found 4}}
  %0 = aten.select(%x, dim = 0, index = 4) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @select_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.select' op expects a result of type 'tensor<8xf32>', found 'tensor<4xf32>'}}
  %0 = aten.select(%x, dim = 0, index = 0) : (tensor<4x8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @split(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split' op expects `dim` in [-1, 0], found 1}}
  %0:2 = aten.split(%x, split_size = 2, dim = 1) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @split_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split' op expects `split_size` of at least 1, found 0}}
  %0 = aten.split(%x, split_size = 0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @split_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split' op expects 2 results, found 3}}
  %0:3 = aten.split(%x, split_size = 3) : (tensor<4xf32>) -> (tensor<3xf32>, tensor<1xf32>, tensor<0xf32>)
  return
}

// -----

func.func @split_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split' op expects result 1 of type 'tensor<1xf32>', found 'tensor<3xf32>'}}
  %0:2 = aten.split(%x, split_size = 3) : (tensor<4xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @split_with_sizes(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split_with_sizes' op expects `dim` in [-1, 0], found -2}}
  %0 = aten.split_with_sizes(%x, split_sizes = [4], dim = -2) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @split_with_sizes_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split_with_sizes' op expects `split_sizes` that add up to 4, the size of the dimension, found [3, 2]}}
  %0:2 = aten.split_with_sizes(%x, split_sizes = [3, 2]) : (tensor<4xf32>) -> (tensor<3xf32>, tensor<2xf32>)
  return
}

// -----

func.func @split_with_sizes_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split_with_sizes' op expects `split_sizes` that add up to 4, the size of the dimension, found [5, -1]}}
  %0:2 = aten.split_with_sizes(%x, split_sizes = [5, -1]) : (tensor<4xf32>) -> (tensor<5xf32>, tensor<0xf32>)
  return
}

// -----

func.func @split_with_sizes_4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split_with_sizes' op expects result 1 of type 'tensor<1xf32>', found 'tensor<3xf32>'}}
  %0:2 = aten.split_with_sizes(%x, split_sizes = [3, 1]) : (tensor<4xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @unbind(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'aten.unbind' op expects `dim` in [-2, 1], found 3}}
  %0:2 = aten.unbind(%x, dim = 3) : (tensor<2x4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @unbind_2(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'aten.unbind' op expects 2 results, found 1}}
  %0 = aten.unbind(%x) : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unbind_3(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'aten.unbind' op expects result 1 of type 'tensor<4xf32>', found 'tensor<1x4xf32>'}}
  %0:2 = aten.unbind(%x) : (tensor<2x4xf32>) -> (tensor<4xf32>, tensor<1x4xf32>)
  return
}

// -----

func.func @slice_backward(%g: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_backward' op expects `dim` in [-2, 1], found 2}}
  %0 = aten.slice_backward(%g, input_sizes = [4, 8], dim = 2, start = 0, end = 4, step = 1) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_backward_2(%g: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_backward' op expects `step` of at least 1, found -1}}
  %0 = aten.slice_backward(%g, input_sizes = [4, 8], dim = 1, start = 0, end = 4, step = -1) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_backward_3(%g: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_backward' op expects `grad_output` of shape [4, 5], found 'tensor<4x4xf32>'}}
  %0 = aten.slice_backward(%g, input_sizes = [4, 8], dim = 1, start = 0, end = 5, step = 1) : (tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_backward_4(%g: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_backward' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x4xf32>'}}
  %0 = aten.slice_backward(%g, input_sizes = [4, 8], dim = 1, start = 0, end = 4, step = 1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @select_backward(%g: tensor<f32>) {
  // expected-error @+1 {{'aten.select_backward' op expects at least one dimension, found none}}
  %0 = aten.select_backward(%g, input_sizes = [], dim = 0, index = 0) : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @select_backward_2(%g: tensor<8xf32>) {
  // expected-error @+1 {{'aten.select_backward' op expects `index` within a dimension of size 4, found -5}}
  %0 = aten.select_backward(%g, input_sizes = [4, 8], dim = 0, index = -5) : (tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_backward_3(%g: tensor<4xf32>) {
  // expected-error @+1 {{'aten.select_backward' op expects `grad_output` of shape [8], found 'tensor<4xf32>'}}
  %0 = aten.select_backward(%g, input_sizes = [4, 8], dim = 0, index = 0) : (tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_backward_4(%g: tensor<8xf32>) {
  // expected-error @+1 {{'aten.select_backward' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x8xf64>'}}
  %0 = aten.select_backward(%g, input_sizes = [4, 8], dim = 0, index = 0) : (tensor<8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @split_with_sizes_5(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.split_with_sizes' op expects `split_sizes` that add up to 4, the size of the dimension, found [9223372036854775807, 9223372036854775807, 6]}}
  %0:3 = aten.split_with_sizes(%x, split_sizes = [9223372036854775807, 9223372036854775807, 6]) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @slice_scatter(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_scatter' op expects `src` of shape [4, 5], found 'tensor<4x4xf32>'}}
  %0 = aten.slice_scatter(%x, %y, dim = 1, end = 5) : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_scatter_2(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.slice_scatter' op expects `step` of at least 1, found 0}}
  %0 = aten.slice_scatter(%x, %y, dim = 1, step = 0) : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_scatter_3(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.slice_scatter' op expects a result of type 'tensor<4x8xf32>', found 'tensor<4x8xf64>'}}
  %0 = aten.slice_scatter(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf64>
  return
}

// -----

func.func @select_scatter(%x: tensor<4x8xf32>, %y: tensor<8xf32>) {
  // expected-error @+1 {{'aten.select_scatter' op expects `src` of shape [4], found 'tensor<8xf32>'}}
  %0 = aten.select_scatter(%x, %y, dim = 1, index = 0) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @select_scatter_2(%x: tensor<4x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'aten.select_scatter' op expects `index` within a dimension of size 8, found 8}}
  %0 = aten.select_scatter(%x, %y, dim = 1, index = 8) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @pad(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.constant_pad_nd' op expects in `pad` two numbers for each of at most 1 dimensions, found [1, 2, 3]}}
  %0 = aten.constant_pad_nd(%x, pad = [1, 2, 3]) : (tensor<4xf32>) -> tensor<7xf32>
  return
}

// -----

func.func @pad_2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.constant_pad_nd' op pads 'tensor<4xf32>' by [-3, -2], which makes a size negative}}
  %0 = aten.constant_pad_nd(%x, pad = [-3, -2]) : (tensor<4xf32>) -> tensor<0xf32>
  return
}

// -----

func.func @pad_3(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.constant_pad_nd' op expects a result of type 'tensor<5xf32>', found 'tensor<4xf32>'}}
  %0 = aten.constant_pad_nd(%x, pad = [1, 0]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
