// Layer and batch normalization: what their verifiers refuse.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @native_layer_norm(%x: tensor<2x8xi64>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects `input` to have a floating-point dtype, found 'tensor<2x8xi64>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], none, none, eps = 1.0e-05) : (tensor<2x8xi64>) -> (tensor<2x8xi64>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_2(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects the shape of `input` to end with `normalized_shape`, found 'tensor<2x8xf32>' and []}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [], none, none, eps = 1.0e-05) : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_3(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects the shape of `input` to end with `normalized_shape`, found 'tensor<2x8xf32>' and [2]}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [2], none, none, eps = 1.0e-05) : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_4(%x: tensor<2x8xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects `weight` of shape [8], found 'tensor<2xf32>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], %w, none, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<2xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_5(%x: tensor<2x8xf32>, %b: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects `bias` of shape [8], found 'tensor<2x8xf32>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], none, %b, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_6(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects result 0 of type 'tensor<2x8xf32>', found 'tensor<2x8xf64>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], none, none, eps = 1.0e-05) : (tensor<2x8xf32>) -> (tensor<2x8xf64>, tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_7(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects result 1 of type 'tensor<2x1xf32>', found 'tensor<2xf32>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], none, none, eps = 1.0e-05) : (tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_8(%x: tensor<2x8xf64>) {
  // expected-error @+1 {{'aten.native_layer_norm' op expects result 2 of type 'tensor<2x1xf64>', found 'tensor<2x1xf32>'}}
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], none, none, eps = 1.0e-05) : (tensor<2x8xf64>) -> (tensor<2x8xf64>, tensor<2x1xf64>, tensor<2x1xf32>)
  return
}

// -----

func.func @native_layer_norm_backward(%g: tensor<8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects `grad_out` of shape [2, 8], found 'tensor<8xf32>'}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true, false, false]) : (tensor<8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_layer_norm_backward_2(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2xf32>, %r: tensor<2x1xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects `mean` of shape [2, 1], found 'tensor<2xf32>'}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_layer_norm_backward_3(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<1x2xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects `rstd` of shape [2, 1], found 'tensor<1x2xf32>'}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<1x2xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_layer_norm_backward_4(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects 3 elements in `output_mask`, found 1}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_layer_norm_backward_5(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects result 1 of type none, since `output_mask` is false for it, found 'tensor<8xf32>'}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, none, none, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, none)
  return
}

// -----

func.func @native_layer_norm_backward_6(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %m: tensor<2x1xf32>, %r: tensor<2x1xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{'aten.native_layer_norm_backward' op expects result 2 of type 'tensor<8xf32>', found 'tensor<8xf64>'}}
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %m, %r, %w, %b, output_mask = [true, true, true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf64>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional(%x: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects `input` of at least two dimensions, found 'tensor<8xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_2(%x: tensor<2x8xi64>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects `input` to have a floating-point dtype, found 'tensor<2x8xi64>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xi64>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xi64>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_3(%x: tensor<2x8xf32>, %w: tensor<2xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects `weight` of shape [8], found 'tensor<2xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, %w, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<2xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_4(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<2xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects `running_var` of shape [8], found 'tensor<2xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_5(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 0 of type 'tensor<2x8xf32>', found 'tensor<8x2xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_6(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 1 of type 'tensor<8xf32>', found 'tensor<0xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<0xf32>, tensor<0xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_7(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 2 of type 'tensor<0xf32>', found 'tensor<8xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = false, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<0xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_8(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 3 of type 'tensor<8xf32>', found 'tensor<8xf64>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf64>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_9(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 4 of type 'tensor<8xf32>', found 'tensor<8x1xf32>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x1xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_functional_10(%x: tensor<2x8xbf16>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_functional' op expects result 1 of type 'tensor<8xf32>', found 'tensor<8xbf16>'}}
  %0:5 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xbf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xbf16>, tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @_native_batch_norm_legit_no_training(%x: tensor<2x8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'aten._native_batch_norm_legit_no_training' op expects result 1 of type 'tensor<0xf32>', found 'tensor<8xf32>'}}
  %0:3 = aten._native_batch_norm_legit_no_training(%x, none, none, %m, %v, momentum = 0.1, eps = 1.0e-05) : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @native_batch_norm_backward(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %s: tensor<2xf32>, %i: tensor<8xf32>) {
  // expected-error @+1 {{'aten.native_batch_norm_backward' op expects `save_mean` of shape [8], found 'tensor<2xf32>'}}
  %0:3 = aten.native_batch_norm_backward(%g, %x, none, none, none, %s, %i, train = true, eps = 1.0e-05, output_mask = [true, false, false]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_batch_norm_backward_2(%g: tensor<2x4xf32>, %x: tensor<2x8xf32>, %s: tensor<8xf32>, %i: tensor<8xf32>) {
  // expected-error @+1 {{'aten.native_batch_norm_backward' op expects `grad_out` of shape [2, 8], found 'tensor<2x4xf32>'}}
  %0:3 = aten.native_batch_norm_backward(%g, %x, none, none, none, %s, %i, train = true, eps = 1.0e-05, output_mask = [true, false, false]) : (tensor<2x4xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_batch_norm_backward_3(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %s: tensor<8xf32>, %i: tensor<8xf32>) {
  // expected-error @+1 {{'aten.native_batch_norm_backward' op expects 3 elements in `output_mask`, found 1}}
  %0:3 = aten.native_batch_norm_backward(%g, %x, none, none, none, %s, %i, train = true, eps = 1.0e-05, output_mask = [true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, none, none)
  return
}

// -----

func.func @native_batch_norm_backward_4(%g: tensor<2x8xf32>, %x: tensor<2x8xf32>, %s: tensor<8xf32>, %i: tensor<8xf32>) {
  // expected-error @+1 {{'aten.native_batch_norm_backward' op expects result 2 of type 'tensor<8xf32>', found 'none'}}
  %0:3 = aten.native_batch_norm_backward(%g, %x, none, none, none, %s, %i, train = true, eps = 1.0e-05, output_mask = [true, true, true]) : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, none)
  return
}

// -----

func.func @group_norm(%x: tensor<2x8x4x4xi64>) {
  // expected-error @+1 {{'aten.native_group_norm' op expects `input` to have a floating-point dtype, found 'tensor<2x8x4x4xi64>'}}
  %0:3 = aten.native_group_norm(%x, none, none, N = 2, C = 8, HxW = 16, group = 4, eps = 1.0e-05) : (tensor<2x8x4x4xi64>) -> (tensor<2x8x4x4xi64>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @group_norm_2(%x: tensor<2x8x4x4xf32>) {
  // expected-error @+1 {{'aten.native_group_norm' op expects `input` of 2 examples with 8 channels of 12 elements, found 'tensor<2x8x4x4xf32>'}}
  %0:3 = aten.native_group_norm(%x, none, none, N = 2, C = 8, HxW = 12, group = 4, eps = 1.0e-05) : (tensor<2x8x4x4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @group_norm_3(%x: tensor<2x8x4x4xf32>) {
  // expected-error @+1 {{'aten.native_group_norm' op expects a `group` of at least 1 that divides the 8 channels, found 3}}
  %0:3 = aten.native_group_norm(%x, none, none, N = 2, C = 8, HxW = 16, group = 3, eps = 1.0e-05) : (tensor<2x8x4x4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @group_norm_4(%x: tensor<2x8x4x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'aten.native_group_norm' op expects `weight` of shape [8], found 'tensor<4xf32>'}}
  %0:3 = aten.native_group_norm(%x, %w, none, N = 2, C = 8, HxW = 16, group = 4, eps = 1.0e-05) : (tensor<2x8x4x4xf32>, tensor<4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  return
}

// -----

func.func @group_norm_5(%x: tensor<2x8x4x4xf32>) {
  // expected-error @+1 {{'aten.native_group_norm' op expects result 1 of type 'tensor<2x4xf32>', found 'tensor<2x8xf32>'}}
  %0:3 = aten.native_group_norm(%x, none, none, N = 2, C = 8, HxW = 16, group = 4, eps = 1.0e-05) : (tensor<2x8x4x4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @group_norm_backward(%x: tensor<2x8x4x4xf32>, %m: tensor<2x8xf32>) {
  // expected-error @+1 {{'aten.native_group_norm_backward' op expects `mean` of shape [2, 4], found 'tensor<2x8xf32>'}}
  %0:3 = aten.native_group_norm_backward(%x, %x, %m, %m, none, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, false, false]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8x4x4xf32>, none, none)
  return
}

// -----

func.func @group_norm_backward_2(%x: tensor<2x8x4x4xf32>, %m: tensor<2x4xf32>) {
  // expected-error @+1 {{'aten.native_group_norm_backward' op expects result 1 of type 'tensor<8xf32>', found 'none'}}
  %0:3 = aten.native_group_norm_backward(%x, %x, %m, %m, none, N = 2, C = 8, HxW = 16, group = 4, output_mask = [true, true, false]) : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x8x4x4xf32>, none, none)
  return
}
