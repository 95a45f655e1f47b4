// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// 1.
// expected-note @below {{the first is here}}
train.program
// expected-error @below {{is the second of its module}}
train.program
func.func @microbatch() attributes {train.phase = #train.phase<microbatch>} {
  return
}

// -----

func.func @f() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  train.program
  return
}

// -----

// 2.
// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {
  train.program
}

// -----

train.program
// expected-note @below {{the microbatch function has none with that name, and no gradients at all; cleave-opt --autodiff adds them}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{takes #train.role<gradient "w"> of type 'tensor<4xf32>'}}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}

// -----

train.program
func.func @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<forward>} {
  %0 = aten.sum(%x) : (tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
// expected-error @below {{takes #train.role<saved "h">, which no function of the program returns}}
func.func @backward(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>} {
  return %h : tensor<4xf32>
}

// -----

// A function that is not sound by itself is reported once.
train.program
// expected-error @below {{expects a role for argument 0}}
func.func @microbatch(%w: tensor<4xf32>)
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
