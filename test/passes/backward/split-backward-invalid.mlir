// RUN: cleave-opt %s --split-input-file --split-backward --verify-diagnostics
// RUN: not cleave-opt %s --split-input-file --split-backward="recompute=all" 2>&1 | FileCheck %s

// CHECK: Cannot find option named 'all'

module {
// expected-error @below {{has no separate backward; run --partition-joint first}}
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}

// -----

// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {
}

// -----

module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
// expected-error @below {{is half of an already split backward}}
func.func @backward_input() attributes {train.phase = #train.phase<backward_input>} {
  return
}
func.func @backward_weight(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
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
// expected-error @below {{returns #train.role<gradient "v">, but the program has neither a parameter nor an input with that name}}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<backward>} {
  return %w : tensor<4xf32>
}
}

// -----

module {
dist.mesh @mesh ["dp" = 2]
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>} {
  // expected-error @below {{has side effects, so its backward cannot be split}}
  dist.barrier over @mesh ["dp"]
  return %w : tensor<4xf32>
}
}

// -----

module {
dist.mesh @mesh ["dp" = 2]
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<forward>} {
  return %w : tensor<4xf32>
}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  // expected-error @below {{is awaited in both halves of the backward, but a future cannot be passed between functions; run --split-backward before overlapping communication}}
  %f:2 = dist.all_reduce sum(%w, %x) over @mesh ["dp"] : tensor<4xf32>, tensor<4xf32> -> !dist.future<tensor<4xf32>>, !dist.future<tensor<4xf32>>
  %gw = dist.wait %f#0 : tensor<4xf32>
  %gx = dist.wait %f#1 : tensor<4xf32>
  return %gw, %gx : tensor<4xf32>, tensor<4xf32>
}
}
