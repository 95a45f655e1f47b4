// Convolution and its gradients: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @convolution(%x: tensor<3x8xf32>, %w: tensor<16x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `input` and `weight` of 3 to 5 dimensions each, found 'tensor<3x8xf32>' and 'tensor<16x3xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<3x8xf32>, tensor<16x3xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @convolution_2(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `input` and `weight` of 3 to 5 dimensions each, found 'tensor<2x3x8x8xf32>' and 'tensor<16x3x3xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_3(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf64>) {
  // expected-error @+1 {{'aten.convolution' op expects operands of the same dtype, found 'tensor<16x3x3x3xf64>' and 'tensor<2x3x8x8xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf64>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_4(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `groups` of at least 1, found 0}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 0) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_5(%x: tensor<2x4x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `weight` for 4 input channels in 1 groups, found 'tensor<16x3x3x3xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x4x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_6(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `weight` for 3 input channels in 1 groups, found 'tensor<16x3x3x3xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [1], transposed = true, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x3x10x10xf32>
  return
}

// -----

func.func @convolution_7(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects `bias` of shape [16], found 'tensor<3xf32>'}}
  %0 = aten.convolution(%x, %w, %b, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, tensor<3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_8(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects 1 or 2 elements in `stride`, found 3}}
  %0 = aten.convolution(%x, %w, none, stride = [1, 1, 1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_9(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects strides and dilations of at least 1 and non-negative paddings, found stride 0, dilation 1, padding 0 and output padding 0}}
  %0 = aten.convolution(%x, %w, none, stride = [0], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}

// -----

func.func @convolution_10(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op has a kernel of 9 elements that does not fit an input of 8 with padding 0}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [0], dilation = [4], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x1x1xf32>
  return
}

// -----

func.func @convolution_11(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects a result of type 'tensor<2x16x4x4xf32>', found 'tensor<2x16x5x5xf32>'}}
  %0 = aten.convolution(%x, %w, none, stride = [2], padding = [1], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x5x5xf32>
  return
}

// -----

func.func @convolution_12(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op requires attribute 'dilation'}}
  %0 = aten.convolution(%x, %w, none, stride = [2], padding = [1]) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x4x4xf32>
  return
}

// -----

func.func @convolution_backward(%g: tensor<2x16x5x5xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution_backward' op expects `grad_output` of shape [2, 16, 6, 6], found 'tensor<2x16x5x5xf32>'}}
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1, output_mask = [true, true, false]) : (tensor<2x16x5x5xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, none)
  return
}

// -----

func.func @convolution_backward_2(%g: tensor<2x16x6x6xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution_backward' op expects 3 elements in `output_mask`, found 2}}
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1, output_mask = [true, true]) : (tensor<2x16x6x6xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, none)
  return
}

// -----

func.func @convolution_backward_3(%g: tensor<2x16x6x6xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution_backward' op expects result 2 of type none, since `output_mask` is false for it, found 'tensor<16xf32>'}}
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1, output_mask = [true, true, false]) : (tensor<2x16x6x6xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, tensor<16xf32>)
  return
}

// -----

func.func @convolution_backward_4(%g: tensor<2x16x6x6xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution_backward' op expects result 1 of type 'tensor<16x3x3x3xf32>', found 'none'}}
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1, output_mask = [true, true, true]) : (tensor<2x16x6x6xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, none, tensor<16xf32>)
  return
}

// -----

func.func @convolution_backward_5(%g: tensor<2x16x6x6xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution_backward' op expects result 2 of type 'tensor<16xf32>', found 'tensor<3xf32>'}}
  %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1, output_mask = [true, true, true]) : (tensor<2x16x6x6xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @convolution_13(%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>) {
  // expected-error @+1 {{'aten.convolution' op expects 32-bit integers in `padding`, found 9223372036854775807}}
  %0 = aten.convolution(%x, %w, none, stride = [1], padding = [9223372036854775807], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x6x6xf32>
  return
}
