// RUN: cleave-opt %s --autodiff --split-input-file --verify-diagnostics

// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {
  func.func @f() {
    return
  }
}

// -----

// expected-error @below {{has no result with #train.role<loss> to differentiate; export it with a loss}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

// -----

// expected-error @below {{has a loss that does not depend on any unfrozen parameter}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w" frozen>})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.sum(%w) : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @below {{expects a floating-point loss, found 'tensor<i64>'}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<i64> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.argmax(%w) : (tensor<4xf32>) -> tensor<i64>
  return %0 : tensor<i64>
}

// -----

// expected-error @below {{has an argument with #train.role<seed>; expected a function without gradients}}
func.func @microbatch(%w: tensor<f32> {train.role = #train.role<parameter "w">},
                      %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<f32>
}

// -----

// expected-error @below {{has a result with #train.role<gradient "w">; expected a function without gradients}}
func.func @microbatch(%w: tensor<f32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<f32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w, %w : tensor<f32>, tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<f32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.exp' op is part of a backward; expected a function without gradients}}
  %0 = aten.exp(%w) {train.backward} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.call' op has no derivative for the operator "aten::erfinv", and a gradient must flow through it}}
  %0 = aten.call "aten::erfinv"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.sum(%0) : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A typed op without a rule: second derivatives of kernels are out of reach.

// expected-note @below {{to #train.role<parameter "w">}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.gelu_backward' op has no derivative, and a gradient must flow through it}}
  %0 = aten.gelu_backward(%w, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.sum(%0) : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.native_layer_norm' op has no derivative of result #2, through which a gradient must flow}}
  %0:3 = aten.native_layer_norm(%w, normalized_shape = [8], none, none, eps = 1.0e-05)
      : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %1 = aten.sum(%0#2) : (tensor<4x1xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<8x4xf32> {train.role = #train.role<parameter "w">},
                      %i: tensor<3xi64> {train.role = #train.role<input "i" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.embedding' op has no derivative with `sparse = true`: programs have no sparse gradients}}
  %0 = aten.embedding(%w, %i, sparse = true) : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %1 = aten.sum(%0) : (tensor<3x4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<2x4x8x4xf32> {train.role = #train.role<parameter "w">},
                      %m: tensor<8x8xf32> {train.role = #train.role<parameter "m">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{has no derivative with respect to `attn_mask`; compute attention from products and softmax where a bias is trained}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%w, %w, %w, %m)
      : (tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<2x4x8x4xf32>, tensor<8x8xf32>)
      -> (tensor<2x4x8x4xf32>, tensor<2x4x8xf32>)
  %1 = aten.sum(%0#0) : (tensor<2x4x8x4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %m: tensor<4xi1> {train.role = #train.role<input "m">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.index_put' op has no derivative with respect to `values` where an index is a mask}}
  %0 = aten.index_put(%x, [%m], %w) : (tensor<4xf32>, tensor<4xi1>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.sum(%0) : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">},
                      %i: tensor<4x2xi64> {train.role = #train.role<input "i">},
                      %x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.scatter_add' op has no derivative with respect to `src` where its shape is not that of `index`}}
  %0 = aten.scatter_add(%x, dim = 1, %i, %w) : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = aten.sum(%0) : (tensor<4x8xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4x6xf32> {train.role = #train.role<parameter "w">},
                      %t: tensor<4xi64> {train.role = #train.role<target "t">},
                      %c: tensor<6xf32> {train.role = #train.role<parameter "c">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.nll_loss_forward' op has no derivative with respect to `weight`}}
  %0:2 = aten.nll_loss_forward(%w, %t, %c, reduction = 1, ignore_index = -100)
      : (tensor<4x6xf32>, tensor<4xi64>, tensor<6xf32>) -> (tensor<f32>, tensor<f32>)
  return %0#0 : tensor<f32>
}

// -----

// The update takes a gradient that the loss does not give.

module {
// expected-note @below {{the microbatch function has none with that name}}
func.func @microbatch(%w: tensor<f32> {train.role = #train.role<parameter "w">},
                      %v: tensor<f32> {train.role = #train.role<parameter "v">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<f32>
}
// expected-error @below {{takes #train.role<gradient "v"> of type 'tensor<f32>'}}
func.func @update(%v: tensor<f32> {train.role = #train.role<parameter "v">},
                  %g: tensor<f32> {train.role = #train.role<gradient "v">})
    -> (tensor<f32> {train.role = #train.role<parameter "v">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<f32>
}
}

// -----

module {
// expected-note @below {{the first is here}}
func.func @one() -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.ones(size = []) : () -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @below {{is a second function of phase microbatch}}
func.func @two() -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.ones(size = []) : () -> tensor<f32>
  return %0 : tensor<f32>
}
}

// -----

// Rules of real numbers are not for complex ones.
func.func @microbatch(%w: tensor<4xcomplex<f32>> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.sgn' op has no derivative on complex numbers}}
  %0 = aten.sgn(%w) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %1 = aten.view_as_real(%0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %2 = aten.sum(%1) : (tensor<4x2xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

func.func @microbatch(%w: tensor<4xcomplex<f32>> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{'aten.linalg_vector_norm' op has no derivative on complex numbers but for the norm of order 2}}
  %0 = aten.linalg_vector_norm(%w, ord = 1) : (tensor<4xcomplex<f32>>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @below {{expects a floating-point loss, found 'tensor<complex<f32>>'}}
func.func @microbatch(%w: tensor<4xcomplex<f32>> {train.role = #train.role<parameter "w">})
    -> (tensor<complex<f32>> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.sum(%w) : (tensor<4xcomplex<f32>>) -> tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}
