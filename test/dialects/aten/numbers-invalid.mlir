// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @tensor_for_number(%x: tensor<4xf32>, %a: tensor<f64>) {
  // expected-error @+2 {{'aten.call' op argument 'alpha' expects a number, f64 or i1, found 'tensor<f64>'}}
  // expected-note @+1 {{the schema is aten::add.Tensor}}
  %0 = aten.call "aten::add.Tensor"(self = %x, other = %x, alpha = %a) : (tensor<4xf32>, tensor<4xf32>, tensor<f64>) -> tensor<4xf32>
  return
}

// -----

func.func @number_for_tensor(%x: tensor<4xf32>, %a: f64) {
  // expected-error @+2 {{'aten.call' op argument 'other' expects a tensor, found 'f64'}}
  // expected-note @+1 {{the schema is aten::add.Tensor}}
  %0 = aten.call "aten::add.Tensor"(self = %x, other = %a) : (tensor<4xf32>, f64) -> tensor<4xf32>
  return
}

// -----

// Only a Scalar may be computed: an integer is part of the shape.
func.func @computed_integer(%x: tensor<4xf32>, %a: f64) {
  // expected-error @+2 {{'aten.call' op argument 'shifts' expects SymInt[1], found #aten.operand<1>}}
  // expected-note @+1 {{the schema is aten::roll}}
  %0 = aten.call "aten::roll"(self = %x, shifts = %a) : (tensor<4xf32>, f64) -> tensor<4xf32>
  return
}

// -----

func.func @other_type(%x: tensor<4xf32>, %a: f32) {
  // expected-error @+1 {{'aten.call' op operand #2 must be variadic}}
  %0 = aten.call "aten::add.Tensor"(self = %x, other = %x, alpha = %a) : (tensor<4xf32>, tensor<4xf32>, f32) -> tensor<4xf32>
  return
}

// -----

func.func @item_of_vector(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.item' op operand #0 must be}}
  %0 = aten.item(%x) : (tensor<4xf32>) -> f64
  return
}
