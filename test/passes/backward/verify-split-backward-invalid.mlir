// RUN: cleave-opt %s --split-input-file --verify-split-backward --verify-diagnostics

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward_input(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">},
        tensor<4xf32> {train.role = #train.role<saved "n">})
    attributes {train.phase = #train.phase<backward_input>} {
  %x = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below {{is in 'backward_input', but none of the gradients computed there needs it}}
  %n = aten.exp(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %x, %n : tensor<4xf32>, tensor<4xf32>
}
func.func @backward_weight(%n: tensor<4xf32> {train.role = #train.role<saved "n">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  return %n : tensor<4xf32>
}
}

// -----

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward_input(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">},
        tensor<4xf32> {train.role = #train.role<saved "n">})
    attributes {train.phase = #train.phase<backward_input>} {
  %n = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note @below {{computed here}}
  %x = aten.exp(%n) : (tensor<4xf32>) -> tensor<4xf32>
  return %x, %n : tensor<4xf32>, tensor<4xf32>
}
func.func @backward_weight(%n: tensor<4xf32> {train.role = #train.role<saved "n">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  // expected-error @below {{repeats a computation of backward_input, and is not marked train.recomputed}}
  %e = aten.exp(%n) {train.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %g = aten.neg(%e) : (tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}
}

// -----

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward_input(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward_input>} {
  return %w : tensor<4xf32>
}
func.func @backward_weight(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  // expected-error @below {{is marked train.recomputed, but neither forward nor backward_input computes it}}
  %g = aten.neg(%w) {train.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}
}

// -----

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward_input(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward_input>} {
  return %w : tensor<4xf32>
}
func.func @backward_weight(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  // expected-error @below {{is in 'backward_weight', but no result needs it}}
  %g = aten.neg(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %w : tensor<4xf32>
}
}

// -----

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{has phase backward_input but returns #train.role<gradient "w">, a parameter's gradient, which belongs in backward_weight}}
func.func @backward_input(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_input>} {
  return %w : tensor<4xf32>
}
func.func @backward_weight() attributes {train.phase = #train.phase<backward_weight>} {
  return
}
}

// -----

module {
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %x : tensor<4xf32>
}
func.func @backward_input() attributes {train.phase = #train.phase<backward_input>} {
  return
}
// expected-error @below {{has phase backward_weight but returns #train.role<gradient "x">, an input's gradient, which belongs in backward_input}}
func.func @backward_weight(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward_weight>} {
  return %x : tensor<4xf32>
}
}

// -----

// expected-error @below {{expects functions of phases backward_input and backward_weight; run --split-backward first}}
module {
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}
