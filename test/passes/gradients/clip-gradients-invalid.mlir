// RUN: cleave-opt %s --clip-gradients --split-input-file --verify-diagnostics
// RUN: not cleave-opt %S/clip-gradients.mlir --split-input-file --clip-gradients="max-norm=-1" 2>&1 | FileCheck %s
// CHECK: error: expects a positive max-norm, found -1.000000e+00

// expected-error @below {{has no update function, so there are no gradients to clip; export it with an optimizer}}
module {
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}

// -----

dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xf32> {train.role = #train.role<input "x">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<8xf32>
}
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<8xf32> {train.role = #train.role<gradient "w">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // expected-note @below {{the gradient is scattered here}}
  %s = dist.reduce_scatter sum(%g) dim 0 over @mesh ["fsdp"] : tensor<8xf32> -> tensor<4xf32>
  // expected-error @below {{takes a sharded gradient without a placement; its norm over all ranks needs `#dist.on` types}}
  %w1 = train.sgd(%w, %s, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %w1 : tensor<4xf32>
}
