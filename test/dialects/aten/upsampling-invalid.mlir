// Images in another resolution: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @upsample_nearest2d(%x: tensor<2x3x4xf32>) {
  // expected-error @+1 {{'aten.upsample_nearest2d' op expects `self` to have 4 dimensions, found 'tensor<2x3x4xf32>'}}
  %0 = aten.upsample_nearest2d(%x, output_size = [8, 6]) : (tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  return
}

// -----

func.func @upsample_nearest1d(%x: tensor<2x3x0xf32>) {
  // expected-error @+1 {{'aten.upsample_nearest1d' op expects an image with elements in `self`, found 'tensor<2x3x0xf32>'}}
  %0 = aten.upsample_nearest1d(%x, output_size = [8]) : (tensor<2x3x0xf32>) -> tensor<2x3x8xf32>
  return
}

// -----

func.func @upsample_bilinear2d(%x: tensor<2x3x4x4xf32>) {
  // expected-error @+1 {{'aten.upsample_bilinear2d' op expects 2 sizes of at least 1 in `output_size`, found [8]}}
  %0 = aten.upsample_bilinear2d(%x, output_size = [8], align_corners = true) : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  return
}

// -----

func.func @upsample_bicubic2d(%x: tensor<2x3x4x4xf32>) {
  // expected-error @+1 {{'aten.upsample_bicubic2d' op expects 2 sizes of at least 1 in `output_size`, found [8, 0]}}
  %0 = aten.upsample_bicubic2d(%x, output_size = [8, 0], align_corners = true) : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x0xf32>
  return
}

// -----

func.func @upsample_trilinear3d(%x: tensor<2x3x4x4x4xf32>) {
  // expected-error @+1 {{'aten.upsample_trilinear3d' op expects a result of type 'tensor<2x3x8x8x8xf32>', found 'tensor<2x3x8x8x9xf32>'}}
  %0 = aten.upsample_trilinear3d(%x, output_size = [8, 8, 8], align_corners = true) : (tensor<2x3x4x4x4xf32>) -> tensor<2x3x8x8x9xf32>
  return
}

// -----

func.func @upsample_linear1d_backward(%g: tensor<2x3x8xf32>) {
  // expected-error @+1 {{'aten.upsample_linear1d_backward' op expects 1 sizes of at least 1 in `output_size`, found [8, 8]}}
  %0 = aten.upsample_linear1d_backward(%g, output_size = [8, 8], input_size = [2, 3, 4], align_corners = true) : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @upsample_nearest2d_backward(%g: tensor<2x3x8x8xf32>) {
  // expected-error @+1 {{'aten.upsample_nearest2d_backward' op expects 4 sizes in `input_size`, of at least 1 behind the first two, found [2, 3, 4, 0]}}
  %0 = aten.upsample_nearest2d_backward(%g, output_size = [8, 8], input_size = [2, 3, 4, 0]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x0xf32>
  return
}

// -----

func.func @upsample_nearest2d_backward_2(%g: tensor<2x3x8x9xf32>) {
  // expected-error @+1 {{'aten.upsample_nearest2d_backward' op expects `grad_output` of shape [2, 3, 8, 8], found 'tensor<2x3x8x9xf32>'}}
  %0 = aten.upsample_nearest2d_backward(%g, output_size = [8, 8], input_size = [2, 3, 4, 4]) : (tensor<2x3x8x9xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @upsample_nearest2d_backward_3(%g: tensor<2x3x8x8xf32>) {
  // expected-error @+1 {{'aten.upsample_nearest2d_backward' op expects a result of type 'tensor<2x3x4x4xf32>', found 'tensor<2x3x4x5xf32>'}}
  %0 = aten.upsample_nearest2d_backward(%g, output_size = [8, 8], input_size = [2, 3, 4, 4]) : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x5xf32>
  return
}
