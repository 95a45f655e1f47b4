// RUN: cleave-opt %s --partition-joint --split-input-file --verify-diagnostics

// expected-error @below {{has no gradients among its results, so it has no backward to split off}}
func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expects the new value of #train.role<buffer "b"> to come from the forward, found one that depends on the gradient of the loss}}
func.func @microbatch(%b: tensor<f32> {train.role = #train.role<buffer "b">}, %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<buffer "b">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.add(%b, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh ["pp" = 2]
func.func @microbatch(%s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<f32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  // expected-error @below {{cannot be recomputed as its checkpoint tag requires: it has side effects}}
  %0 = dist.receive from 0 to 1 tag 7 over @mesh ["pp"] {train.checkpoint = #train.checkpoint<must_recompute, graph 0>} : tensor<f32>
  %1 = aten.mul(%0, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// -----

// expected-error @below {{expects a program: a function with train.phase = #train.phase<microbatch>}}
module {}
