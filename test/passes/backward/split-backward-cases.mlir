// RUN: cleave-opt %s --split-input-file --split-backward --verify-split-backward | FileCheck %s

// A tied weight is one parameter: both of its uses are summed in dW, and accumulated once. The
// gradient of an input that comes after those of parameters is found all the same, as are gradients
// behind checkpoint tags.

// CHECK-LABEL: func.func @backward_input(
// CHECK-SAME: -> (tensor<4x4xf32> {train.role = #train.role<gradient "x">}, tensor<4x4xf32> {train.role = #train.role<saved "mm">})
// CHECK-COUNT-2: aten.mm
// CHECK-NOT: train.accumulate
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.t(
// CHECK-COUNT-2: aten.mm
// CHECK: %[[BOTH:.*]] = aten.add
// CHECK-NEXT: %[[SUM:.*]] = train.accumulate %[[BOTH]]
// CHECK-NEXT: return %[[SUM]] : tensor<4x4xf32>
module {
func.func @forward(%w: tensor<4x4xf32> {train.role = #train.role<parameter "in.weight" aliases ["out.weight"]>},
                   %x: tensor<4x4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x4xf32> {train.role = #train.role<saved "h">})
    attributes {train.phase = #train.phase<forward>} {
  %h = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = aten.mm(%h, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %loss = aten.sum(%y) : (tensor<4x4xf32>) -> tensor<f32>
  return %loss, %h : tensor<f32>, tensor<4x4xf32>
}
func.func @backward(%w: tensor<4x4xf32> {train.role = #train.role<parameter "in.weight" aliases ["out.weight"]>},
                    %a: tensor<4x4xf32> {train.role = #train.role<accumulator "in.weight">},
                    %x: tensor<4x4xf32> {train.role = #train.role<input "x" batch 0>},
                    %h: tensor<4x4xf32> {train.role = #train.role<saved "h">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4x4xf32> {train.role = #train.role<gradient "in.weight">},
        tensor<4x4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %g = aten.expand(%seed, size = [4, 4]) : (tensor<f32>) -> tensor<4x4xf32>
  %wt = aten.t(%w) {train.checkpoint = #train.checkpoint<prefer_recompute, graph 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %ht = aten.t(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d1 = aten.mm(%ht, %g) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dh = aten.mm(%g, %wt) {train.checkpoint = #train.checkpoint<must_recompute, graph 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %xt = aten.t(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %d0 = aten.mm(%xt, %dh) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = aten.add(%d1, %d0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %sum = train.accumulate %dw into %a : tensor<4x4xf32>
  %dx = aten.mm(%dh, %wt) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %sum, %dx : tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// Without a gradient of an input dI is empty, and all is dW's.

// CHECK-LABEL: func.func @backward_input()
// CHECK-NEXT: return
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.expand
module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<forward>} {
  %loss = aten.sum(%w) : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
func.func @backward(%seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [4]) : (tensor<f32>) -> tensor<4xf32>
  return %e : tensor<4xf32>
}
}

// -----

// Without parameters, or with frozen ones only, dW is empty.

// CHECK-LABEL: func.func @backward_input(
// CHECK: aten.mul
// CHECK-LABEL: func.func @backward_weight()
// CHECK-NEXT: return
module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w" frozen>},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<forward>} {
  %y = aten.mul(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = aten.sum(%y) : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w" frozen>},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %dx = aten.mul(%w, %seed) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %dx : tensor<4xf32>
}
}

// -----

// y = relu(x + p): the gradient of p is that of x. dI computes it, dW only accumulates.

// CHECK-LABEL: func.func @backward_input(
// CHECK: %[[G:.*]] = aten.threshold_backward
// CHECK-NEXT: return %[[G]], %[[G]]
// CHECK-LABEL: func.func @backward_weight(
// CHECK-NEXT: train.accumulate
// CHECK-NEXT: return
module {
func.func @forward(%p: tensor<4xf32> {train.role = #train.role<parameter "p">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4xf32> {train.role = #train.role<saved "s">})
    attributes {train.phase = #train.phase<forward>} {
  %s = aten.add(%x, %p) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = aten.relu(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %loss = aten.sum(%y) : (tensor<4xf32>) -> tensor<f32>
  return %loss, %s : tensor<f32>, tensor<4xf32>
}
func.func @backward(%a: tensor<4xf32> {train.role = #train.role<accumulator "p">},
                    %s: tensor<4xf32> {train.role = #train.role<saved "s">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "x">},
        tensor<4xf32> {train.role = #train.role<gradient "p">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [4]) : (tensor<f32>) -> tensor<4xf32>
  %g = aten.threshold_backward(%e, %s, threshold = 0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %sum = train.accumulate %g into %a : tensor<4xf32>
  return %g, %sum : tensor<4xf32>, tensor<4xf32>
}
}

// -----

// A buffer that the backward updates stays with the half that reads it; what the other half needs
// is the value before, which is handed over. Two equal ops, one for each half, become one.

// CHECK-LABEL: func.func @backward_input(
// CHECK-SAME: %[[B:arg[0-9]+]]: tensor<4xf32> {train.role = #train.role<buffer "scale">}
// CHECK-SAME: tensor<4xf32> {train.role = #train.role<buffer "scale">}
// CHECK-SAME: tensor<4xf32> {train.role = #train.role<saved "scale">}
// CHECK-COUNT-1: aten.exp
// CHECK: return {{.*}}, %[[B]],
// CHECK-LABEL: func.func @backward_weight(
// CHECK-NOT: #train.role<buffer
// CHECK: aten.mul
module {
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<forward>} {
  %y = aten.mul(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %loss = aten.sum(%y) : (tensor<4xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
func.func @backward(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<4xf32> {train.role = #train.role<input "x">},
                    %scale: tensor<4xf32> {train.role = #train.role<buffer "scale">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<buffer "scale">},
        tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %e1 = aten.exp(%seed) : (tensor<f32>) -> tensor<f32>
  %e2 = aten.exp(%seed) {train.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
  %gx = aten.mul(%w, %e1) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %dx = aten.mul(%gx, %scale) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %gw = aten.mul(%x, %e2) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %dw = aten.mul(%gw, %scale) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %next = aten.neg(%scale) : (tensor<4xf32>) -> tensor<4xf32>
  return %dw, %next, %dx : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}
