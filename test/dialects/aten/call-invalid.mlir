// Calls that the dispatcher's schemas do not allow.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @unknown_operator(%x: tensor<4xf32>) {
  // expected-error @+1 {{calls 'aten::frobnicate', which PyTorch's dispatcher does not have}}
  %0 = aten.call "aten::frobnicate"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unknown_overload(%x: tensor<4xf32>) {
  // expected-error @+1 {{calls 'aten::add.Nothing', which PyTorch's dispatcher does not have}}
  %0 = aten.call "aten::add.Nothing"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @bad_schema(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.call' op expects a `schema` as in "(Tensor x) -> Tensor", found "Tensor x"}}
  %0 = aten.call "mine::cube" "Tensor x"(x = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @other_schema(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op has another schema than the dispatcher's 'aten::erfinv'}}
  // expected-note @+1 {{the schema is aten::erfinv(Tensor self) -> Tensor}}
  %0 = aten.call "aten::erfinv" "(Tensor x) -> Tensor"(x = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @argument_of_own_schema(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op has no argument named 'self'}}
  // expected-note @+1 {{the schema is mine::cube(Tensor x) -> Tensor}}
  %0 = aten.call "mine::cube" "(Tensor x) -> Tensor"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @wrong_name(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op has no argument named 'shift'}}
  // expected-note @+1 {{the schema is aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor}}
  %0 = aten.call "aten::roll"(self = %x, shift = [1]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @string_for_list(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op argument 'shifts' expects SymInt[1], found "one"}}
  // expected-note @+1 {{the schema is aten::roll}}
  %0 = aten.call "aten::roll"(self = %x, shifts = "one") : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @tensor_for_list(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op argument 'shifts' expects SymInt[1], found}}
  // expected-note @+1 {{the schema is aten::roll}}
  %0 = aten.call "aten::roll"(self = %x, shifts = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @none_for_tensor() {
  // expected-error @+2 {{'aten.call' op argument 'self' expects Tensor, found}}
  // expected-note @+1 {{the schema is aten::roll}}
  %0 = aten.call "aten::roll"(self = none, shifts = [1]) : () -> tensor<4xf32>
  return
}

// -----

func.func @bool_for_int(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op argument 'dim' expects int, found true}}
  // expected-note @+1 {{the schema is aten::logcumsumexp}}
  %0 = aten.call "aten::logcumsumexp"(self = %x, dim = true) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @missing(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op lacks the argument 'shifts'}}
  // expected-note @+1 {{the schema is aten::roll}}
  %0 = aten.call "aten::roll"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mutating(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op mutates its argument 'self'; programs are pure, call the functional overload}}
  // expected-note @+1 {{the schema is aten::relu_}}
  %0 = aten.call "aten::relu_"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @out_variant(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op mutates its argument 'out'}}
  // expected-note @+1 {{the schema is aten::roll.out}}
  %0 = aten.call "aten::roll.out"(self = %x, shifts = [1], out = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @seeded(%x: tensor<4xf32>) {
  // expected-error @+1 {{calls 'aten::native_dropout', which draws from the global generator; use an aten.rng_* op}}
  %0:2 = aten.call "aten::native_dropout"(input = %x, p = 0.5, train = true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return
}

// -----

func.func @too_few_results(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op expects 2 results, found 1}}
  // expected-note @+1 {{the schema is aten::kthvalue}}
  %0 = aten.call "aten::kthvalue"(self = %x, k = 1) : (tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @no_tensor_result(%x: tensor<4xf32>) {
  // expected-error @+2 {{'aten.call' op returns a bool, which is not a tensor}}
  // expected-note @+1 {{the schema is aten::equal}}
  %0 = aten.call "aten::equal"(self = %x, other = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<i1>
  return
}

// -----

func.func @given_twice(%x: tensor<4xf32>) {
  // expected-error @+1 {{argument 'shifts' is given twice}}
  %0 = aten.call "aten::roll"(self = %x, shifts = [1], shifts = [2]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @mixed_list(%x: tensor<4xf32>) {
  // expected-error @+1 {{list 'tensors' mixes tensors and constants}}
  %0 = aten.call "aten::hstack"(tensors = [%x, 1]) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @operand_types(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 1 operand types, found 2}}
  %0 = aten.call "aten::roll"(self = %x, shifts = [1]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dangling_reference(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.call' op refers to an operand that it does not have}}
  %0 = "aten.call"(%x) <{callee = "aten::roll", args = {self = #aten.operand<3>, shifts = array<i64: 1>}}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @unnamed_operand(%x: tensor<4xf32>) {
  // expected-error @+1 {{'aten.call' op has an operand that none of its arguments refers to}}
  %0 = "aten.call"(%x, %x) <{callee = "aten::roll", args = {self = #aten.operand<0>, shifts = array<i64: 1>}}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}
