// RUN: cleave-opt %s --split-backward="inputs=activations" --verify-split-backward | FileCheck %s

// A prologue has absorbed the tangent: the forward's loss and the first op of the backward are one
// function's, here the forward's, which takes the seed. The backward has only saved values, and the
// one that depends on the seed is found to be the gradient that it continues.

// CHECK-LABEL: func.func @backward_input(
// CHECK-SAME: %{{.*}}: tensor<4x8xf32> {train.role = #train.role<saved "dy">})
// CHECK: %[[DX:.*]] = aten.mm({{.*}} {train.activation_gradient}
// CHECK-NEXT: return %[[DX]]
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.embedding_dense_backward
func.func @forward(%e: tensor<16x8xf32> {train.role = #train.role<parameter "wte.weight">},
                   %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                   %tokens: tensor<4xi64> {train.role = #train.role<input "tokens" batch 0>},
                   %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x8xf32> {train.role = #train.role<saved "x">},
        tensor<4x8xf32> {train.role = #train.role<saved "dy">})
    attributes {train.phase = #train.phase<forward>} {
  %x = aten.embedding(%e, %tokens) : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %loss = aten.sum(%y) : (tensor<4x8xf32>) -> tensor<f32>
  %dy = aten.expand(%seed, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32>
  return %loss, %x, %dy : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @backward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                    %tokens: tensor<4xi64> {train.role = #train.role<input "tokens" batch 0>},
                    %x: tensor<4x8xf32> {train.role = #train.role<saved "x">},
                    %dy: tensor<4x8xf32> {train.role = #train.role<saved "dy">})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">},
        tensor<16x8xf32> {train.role = #train.role<gradient "wte.weight">})
    attributes {train.phase = #train.phase<backward>} {
  %xt = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw = aten.mm(%xt, %dy) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dx = aten.mm(%dy, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %de = aten.embedding_dense_backward(%dx, %tokens, num_weights = 16, padding_idx = -1, scale_grad_by_freq = false) : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<16x8xf32>
  return %dw, %de : tensor<8x8xf32>, tensor<16x8xf32>
}
