// Pooling over windows of images: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @max_pool2d_with_indices(%x: tensor<16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects `self` of 3 or 4 dimensions, found 'tensor<16x16xf32>'}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3]) : (tensor<16x16xf32>) -> (tensor<5x5xf32>, tensor<5x5xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_2(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects 1 or 2 elements in `kernel_size`, found 3}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3, 3, 3]) : (tensor<2x16x16xf32>) -> (tensor<2x5x5xf32>, tensor<2x5x5xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_3(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects kernel, stride and dilation of at least 1 and a padding between 0 and half of the kernel, found kernel 2, stride 2, dilation 1 and padding 2}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [2], padding = [2]) : (tensor<2x16x16xf32>) -> (tensor<2x10x10xf32>, tensor<2x10x10xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_4(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects kernel, stride and dilation of at least 1 and a padding between 0 and half of the kernel, found kernel 2, stride 0, dilation 1 and padding 0}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [2], stride = [0]) : (tensor<2x16x16xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_5(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op has a window of 17 elements that does not fit an image of 16 with padding 0}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [17]) : (tensor<2x16x16xf32>) -> (tensor<2x1x1xf32>, tensor<2x1x1xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_6(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects result 0 of type 'tensor<2x7x7xf32>', found 'tensor<2x8x8xf32>'}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3], stride = [2]) : (tensor<2x16x16xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xi64>)
  return
}

// -----

func.func @max_pool2d_with_indices_7(%x: tensor<2x16x16xf32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices' op expects result 1 of type 'tensor<2x8x8xi64>', found 'tensor<2x8x8xf32>'}}
  %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [2]) : (tensor<2x16x16xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xf32>)
  return
}

// -----

func.func @max_pool2d_with_indices_backward(%g: tensor<2x7x8xf32>, %x: tensor<2x16x16xf32>, %i: tensor<2x8x8xi64>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices_backward' op expects `grad_output` of shape [2, 8, 8], found 'tensor<2x7x8xf32>'}}
  %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [2], stride = [2], padding = [0], dilation = [1], ceil_mode = false, %i) : (tensor<2x7x8xf32>, tensor<2x16x16xf32>, tensor<2x8x8xi64>) -> tensor<2x16x16xf32>
  return
}

// -----

func.func @max_pool2d_with_indices_backward_2(%g: tensor<2x8x8xf32>, %x: tensor<2x16x16xf32>, %i: tensor<2x7x8xi64>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices_backward' op expects `indices` of shape [2, 8, 8], found 'tensor<2x7x8xi64>'}}
  %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [2], stride = [2], padding = [0], dilation = [1], ceil_mode = false, %i) : (tensor<2x8x8xf32>, tensor<2x16x16xf32>, tensor<2x7x8xi64>) -> tensor<2x16x16xf32>
  return
}

// -----

func.func @max_pool2d_with_indices_backward_3(%g: tensor<2x8x8xf32>, %x: tensor<2x16x16xf32>, %i: tensor<2x8x8xi32>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices_backward' op expects `indices` of dtype i64, found 'tensor<2x8x8xi32>'}}
  %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [2], stride = [2], padding = [0], dilation = [1], ceil_mode = false, %i) : (tensor<2x8x8xf32>, tensor<2x16x16xf32>, tensor<2x8x8xi32>) -> tensor<2x16x16xf32>
  return
}

// -----

func.func @max_pool2d_with_indices_backward_4(%g: tensor<2x8x8xf32>, %x: tensor<2x16x16xf32>, %i: tensor<2x8x8xi64>) {
  // expected-error @+1 {{'aten.max_pool2d_with_indices_backward' op expects a result of type 'tensor<2x16x16xf32>', found 'tensor<2x8x8xf32>'}}
  %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [2], stride = [2], padding = [0], dilation = [1], ceil_mode = false, %i) : (tensor<2x8x8xf32>, tensor<2x16x16xf32>, tensor<2x8x8xi64>) -> tensor<2x8x8xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d(%x: tensor<7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d' op expects `self` of 3 or 4 dimensions, found 'tensor<7x7xf32>'}}
  %0 = aten._adaptive_avg_pool2d(%x, output_size = [2, 2]) : (tensor<7x7xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_2(%x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d' op expects two non-negative sizes in `output_size`, found [2]}}
  %0 = aten._adaptive_avg_pool2d(%x, output_size = [2]) : (tensor<4x7x7xf32>) -> tensor<4x2x2xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_3(%x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d' op expects a result of type 'tensor<4x2x2xf32>', found 'tensor<4x7x7xf32>'}}
  %0 = aten._adaptive_avg_pool2d(%x, output_size = [2, 2]) : (tensor<4x7x7xf32>) -> tensor<4x7x7xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_backward(%g: tensor<2x2xf32>, %x: tensor<7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d_backward' op expects `self` of 3 or 4 dimensions, found 'tensor<7x7xf32>'}}
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<2x2xf32>, tensor<7x7xf32>) -> tensor<7x7xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_backward_2(%g: tensor<2x2xf32>, %x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d_backward' op expects `grad_output` to have 3 dimensions, found 'tensor<2x2xf32>'}}
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<2x2xf32>, tensor<4x7x7xf32>) -> tensor<4x7x7xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_backward_3(%g: tensor<4x2x2xf64>, %x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d_backward' op expects `grad_output` to have the dtype of `self`, 'f32', found 'tensor<4x2x2xf64>'}}
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<4x2x2xf64>, tensor<4x7x7xf32>) -> tensor<4x7x7xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_backward_4(%g: tensor<5x2x2xf32>, %x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d_backward' op expects `grad_output` to differ from `self` only in the last two sizes, found 'tensor<5x2x2xf32>' and 'tensor<4x7x7xf32>'}}
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<5x2x2xf32>, tensor<4x7x7xf32>) -> tensor<4x7x7xf32>
  return
}

// -----

func.func @_adaptive_avg_pool2d_backward_5(%g: tensor<4x2x2xf32>, %x: tensor<4x7x7xf32>) {
  // expected-error @+1 {{'aten._adaptive_avg_pool2d_backward' op expects a result of type 'tensor<4x7x7xf32>', found 'tensor<4x2x2xf32>'}}
  %0 = aten._adaptive_avg_pool2d_backward(%g, %x) : (tensor<4x2x2xf32>, tensor<4x7x7xf32>) -> tensor<4x2x2xf32>
  return
}

// -----

func.func @avg_pool(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{'aten.avg_pool2d' op expects `self` of 3 or 4 dimensions, found 'tensor<4x4xf32>'}}
  %0 = aten.avg_pool2d(%x, kernel_size = [2, 2]) : (tensor<4x4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @avg_pool_2(%x: tensor<1x4x4xf32>) {
  // expected-error @+1 {{'aten.avg_pool2d' op expects a `divisor_override` other than 0}}
  %0 = aten.avg_pool2d(%x, kernel_size = [2, 2], divisor_override = 0) : (tensor<1x4x4xf32>) -> tensor<1x2x2xf32>
  return
}

// -----

func.func @avg_pool_3(%x: tensor<1x4x4xf32>) {
  // expected-error @+1 {{'aten.avg_pool2d' op expects a result of type 'tensor<1x2x2xf32>', found 'tensor<1x3x3xf32>'}}
  %0 = aten.avg_pool2d(%x, kernel_size = [2, 2]) : (tensor<1x4x4xf32>) -> tensor<1x3x3xf32>
  return
}

// -----

func.func @avg_pool_backward(%g: tensor<1x3x3xf32>, %x: tensor<1x4x4xf32>) {
  // expected-error @+1 {{'aten.avg_pool2d_backward' op expects `grad_output` of shape [1, 2, 2], found 'tensor<1x3x3xf32>'}}
  %0 = aten.avg_pool2d_backward(%g, %x, kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], ceil_mode = false, count_include_pad = true) : (tensor<1x3x3xf32>, tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return
}

// -----

func.func @im2col(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{'aten.im2col' op expects `self` of 3 or 4 dimensions, found 'tensor<8x8xf32>'}}
  %0 = aten.im2col(%x, kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<8x8xf32>) -> tensor<6x16xf32>
  return
}

// -----

func.func @im2col_2(%x: tensor<4x8x8xf32>) {
  // expected-error @+1 {{'aten.im2col' op expects 2 elements in `dilation`, found 1}}
  %0 = aten.im2col(%x, kernel_size = [3, 2], dilation = [1], padding = [1, 0], stride = [2, 2]) : (tensor<4x8x8xf32>) -> tensor<24x16xf32>
  return
}

// -----

func.func @im2col_3(%x: tensor<4x8x8xf32>) {
  // expected-error @+1 {{'aten.im2col' op expects kernel, stride and dilation of at least 1 and a padding of at least 0, found kernel 2, stride 0, dilation 1 and padding 0}}
  %0 = aten.im2col(%x, kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 0]) : (tensor<4x8x8xf32>) -> tensor<24x16xf32>
  return
}

// -----

func.func @im2col_4(%x: tensor<4x8x8xf32>) {
  // expected-error @+1 {{'aten.im2col' op has a window of 12 elements that does not fit an image of 8 with padding 0}}
  %0 = aten.im2col(%x, kernel_size = [3, 12], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<4x8x8xf32>) -> tensor<24x16xf32>
  return
}

// -----

func.func @im2col_5(%x: tensor<4x8x8xf32>) {
  // expected-error @+1 {{'aten.im2col' op expects a result of type 'tensor<24x16xf32>', found 'tensor<24x15xf32>'}}
  %0 = aten.im2col(%x, kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<4x8x8xf32>) -> tensor<24x15xf32>
  return
}

// -----

func.func @col2im(%x: tensor<24x16xf32>) {
  // expected-error @+1 {{'aten.col2im' op expects a result of 3 or 4 dimensions, found 'tensor<8x8xf32>'}}
  %0 = aten.col2im(%x, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<24x16xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @col2im_2(%x: tensor<24x16xf32>) {
  // expected-error @+1 {{'aten.col2im' op expects a result with `output_size` as last two sizes, found 'tensor<4x8x9xf32>'}}
  %0 = aten.col2im(%x, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<24x16xf32>) -> tensor<4x8x9xf32>
  return
}

// -----

func.func @col2im_3(%x: tensor<24x15xf32>) {
  // expected-error @+1 {{'aten.col2im' op expects `self` of shape [24, 16], found 'tensor<24x15xf32>'}}
  %0 = aten.col2im(%x, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2]) : (tensor<24x15xf32>) -> tensor<4x8x8xf32>
  return
}
