// RUN: cleave-opt %s --split-backward="inputs=activations" --verify-split-backward | FileCheck %s --check-prefixes=ALL
// RUN: cleave-opt %s --split-backward="inputs=h.0" --verify-split-backward | FileCheck %s --check-prefixes=ONE
// RUN: not cleave-opt %s --split-backward="inputs=h.2" 2>&1 | FileCheck %s --check-prefixes=NONE

// A first stage: tokens have no gradient. An embedding, a scale, and a layer without bias.

// With inputs=activations, dI ends where the embedding's gradient starts. The elementwise product
// and the sum that make the gradient of the scale are only its own, and stay in dW; of the layer the
// matrix product is.

// ALL-LABEL: func.func @backward_input(
// ALL-SAME: -> (tensor<4x8xf32> {train.role = #train.role<saved "h.0.threshold_backward">}, tensor<4x8xf32> {train.role = #train.role<saved "h.0.mm">}, tensor<4x8xf32> {train.role = #train.role<saved "scale.mul">})
// ALL: aten.expand
// ALL-NEXT: aten.threshold_backward({{.*}} {train.activation_gradient}
// ALL-NEXT: aten.mm({{.*}} {train.activation_gradient}
// ALL-NEXT: aten.mul({{.*}} {train.activation_gradient}
// ALL-NEXT: return
// ALL-LABEL: func.func @backward_weight(
// ALL: aten.t(
// ALL-NEXT: aten.mm(
// ALL-NEXT: aten.mul(
// ALL-NEXT: aten.sum_dim_int_list(
// ALL-NEXT: aten.embedding_dense_backward(
// ALL-NEXT: return

// With inputs=h.0 it ends at the gradient that leaves that module.

// ONE-LABEL: func.func @backward_input(
// ONE: aten.expand
// ONE-NEXT: aten.threshold_backward(
// ONE-NEXT: aten.mm({{.*}} {train.activation_gradient}
// ONE-NEXT: return
// ONE-LABEL: func.func @backward_weight(
// ONE: aten.embedding_dense_backward

// NONE: error: no gradient of an activation leaves 'h.2' for another module
// NONE: note: the function computes gradients in h.0, scale

func.func @forward(%e: tensor<16x8xf32> {train.role = #train.role<parameter "wte.weight">},
                   %s: tensor<8xf32> {train.role = #train.role<parameter "scale.weight">},
                   %w: tensor<8x8xf32> {train.role = #train.role<parameter "h.0.weight">},
                   %tokens: tensor<4xi64> {train.role = #train.role<input "tokens" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x8xf32> {train.role = #train.role<saved "x">},
        tensor<4x8xf32> {train.role = #train.role<saved "u">},
        tensor<4x8xf32> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
  %x = aten.embedding(%e, %tokens) : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %u = aten.mul(%x, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %y = aten.mm(%u, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = aten.relu(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = aten.sum(%r) : (tensor<4x8xf32>) -> tensor<f32>
  return %loss, %x, %u, %y : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @backward(%s: tensor<8xf32> {train.role = #train.role<parameter "scale.weight">},
                    %w: tensor<8x8xf32> {train.role = #train.role<parameter "h.0.weight">},
                    %tokens: tensor<4xi64> {train.role = #train.role<input "tokens" batch 0>},
                    %x: tensor<4x8xf32> {train.role = #train.role<saved "x">},
                    %u: tensor<4x8xf32> {train.role = #train.role<saved "u">},
                    %y: tensor<4x8xf32> {train.role = #train.role<saved "y">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "h.0.weight">},
        tensor<8xf32> {train.role = #train.role<gradient "scale.weight">},
        tensor<16x8xf32> {train.role = #train.role<gradient "wte.weight">})
    attributes {train.phase = #train.phase<backward>} {
  %g = aten.expand(%seed, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32>
  %dy = aten.threshold_backward(%g, %y, threshold = 0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("h.0"("m.py":3:0))
  %ut = aten.t(%u) : (tensor<4x8xf32>) -> tensor<8x4xf32> loc("h.0"("m.py":3:0))
  %dw = aten.mm(%ut, %dy) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("h.0"("m.py":3:0))
  %wt = aten.t(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("h.0"("m.py":3:0))
  %du = aten.mm(%dy, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("h.0"("m.py":3:0))
  %p = aten.mul(%du, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("scale"("m.py":2:0))
  %ds = aten.sum_dim_int_list(%p, dim = [0]) : (tensor<4x8xf32>) -> tensor<8xf32> loc("scale"("m.py":2:0))
  %dx = aten.mul(%du, %s) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("scale"("m.py":2:0))
  %de = aten.embedding_dense_backward(%dx, %tokens, num_weights = 16, padding_idx = -1, scale_grad_by_freq = false) : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<16x8xf32> loc("wte"("m.py":1:0))
  return %dw, %ds, %de : tensor<8x8xf32>, tensor<8xf32>, tensor<16x8xf32>
}
