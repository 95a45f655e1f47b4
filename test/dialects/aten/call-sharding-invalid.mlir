// Sharding rules that do not fit the calls which they are given to.
// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @no_arrow(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab": expected '->' between operands and results}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @character(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "a&b -> ab": found an unexpected '&' in its tensors}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "a&b -> ab"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @word(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab -> ab; hole a": expected whole, sum, avg, max, min, product or linear, found 'hole a'}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab -> ab; hole a"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @letter(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab -> ab; whole c": expected letters of its tensors after 'whole', found 'c'}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab -> ab; whole c"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @number(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab -> ab; linear 1": expected numbers of its operands after 'linear', found '1'}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab -> ab; linear 1"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @no_number(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab -> ab; linear": expected numbers of its operands after 'linear', found none}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab -> ab; linear"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @operands(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab, ab -> ab": it is for 2 operands and 1 results, of which the op has 1 and 1}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab, ab -> ab"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @rank(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "abc -> ab": operand 0 has 2 dimensions, and 3 in its text}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "abc -> ab"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @new(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expects a sharding rule that fits its operands and results, found "ab -> ac; whole b": no operand has factor c of its results, which must be whole}}
  %0 = aten.call "mine::f" "(Tensor x) -> Tensor" sharded "ab -> ac; whole b"(x = %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
