// What the parser of all ops refuses.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @unknown_op(%x: tensor<4xf32>) {
  // expected-error @+1 {{unregistered operation 'aten.frobnicate' found in dialect ('aten') that does not allow unknown operations}}
  %0 = "aten.frobnicate"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unknown_argument(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{custom op 'aten.transpose' has no argument named 'axis'}}
  %0 = aten.transpose(%x, dim0 = 0, axis = 1) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @presence_mask(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{custom op 'aten.index' has no argument named 'indices_present'}}
  %0 = aten.index(%x, [%i], indices_present = [true]) : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @given_twice(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{argument 'dim0' is given twice}}
  %0 = aten.transpose(%x, dim0 = 0, dim0 = 1) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @tensor_by_name(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) {
  // expected-error @+1 {{argument 'mat2' is a tensor: it is given by position}}
  %0 = aten.mm(%x, mat2 = %y) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @too_many_tensors(%x: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'aten.relu' takes 1 tensor arguments, found more}}
  %0 = aten.relu(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @missing_tensor(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{custom op 'aten.mm' lacks the tensor argument 'mat2'}}
  %0 = aten.mm(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @none_for_tensor(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{argument 'mat2' cannot be none}}
  %0 = aten.mm(%x, none) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @none_in_list(%x: tensor<4xf32>) {
  // expected-error @+1 {{list 'tensors' cannot be none}}
  %0 = aten.cat([%x, none]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @tensor_for_list(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected '['}}
  %0 = aten.cat(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @too_few_types(%x: tensor<4x4xf32>) {
  // expected-error @+1 {{expected 2 operand types, found 1}}
  %0 = aten.mm(%x, %x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @wrong_kind(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{custom op 'aten.sum_dim_int_list' attribute 'dim' failed to satisfy constraint: i64 dense array attribute}}
  %0 = aten.sum_dim_int_list(%x, dim = 0) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @float_for_int(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{custom op 'aten.slice' attribute 'dim' failed to satisfy constraint: 64-bit signless integer attribute}}
  %0 = aten.slice(%x, dim = 1.0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @argument_as_attribute(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'dim' has no dialect prefix: arguments belong inside the parentheses}}
  %0 = aten.slice(%x, dim = 1) {dim = 0} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// The generic form goes round the parser; the verifier finds the same.
func.func @generic_unknown_argument(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'aten.t' op has no argument named 'dim'}}
  %0 = "aten.t"(%x) {dim = 0} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @generic_presence_mask(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'aten.index' op has a presence mask that does not fit the list 'indices'}}
  %0 = "aten.index"(%x, %i) <{indices_present = array<i1: true, true>}> : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @result_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.relu' op requires one result}}
  %0:2 = aten.relu(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
