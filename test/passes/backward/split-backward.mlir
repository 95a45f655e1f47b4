// RUN: cleave-opt %s --split-backward --verify-split-backward | FileCheck %s
// RUN: cleave-opt %s --split-backward="explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// A linear layer behind a relu: dI has what the input's gradient needs, dW the rest, whatever the
// order of the results.

// EXPLAIN: backward_input: 3 ops
// EXPLAIN-NEXT: backward_weight: 4 ops, 0 of them recomputed
// EXPLAIN-NEXT: divided by output mask: 0 ops
// EXPLAIN-NEXT: held between the halves, per microbatch: 256 bytes in 2 values
// EXPLAIN-NEXT: saved by the forward: 128 bytes
// EXPLAIN-NEXT: produced by backward_input: 128 bytes
// EXPLAIN-NEXT: 128 saved x, tensor<4x8xf32>
// EXPLAIN-NEXT: 128 aten.threshold_backward, tensor<4x8xf32>

// CHECK-NOT: @backward(
// CHECK-LABEL: func.func @backward_input(
// CHECK-SAME: %[[W:.*]]: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
// CHECK-SAME: %[[Y:.*]]: tensor<4x8xf32> {train.role = #train.role<saved "y">},
// CHECK-SAME: %[[SEED:.*]]: tensor<f32> {train.role = #train.role<seed>})
// CHECK-SAME: -> (tensor<4x8xf32> {train.role = #train.role<gradient "in">},
// CHECK-SAME: tensor<4x8xf32> {train.role = #train.role<saved "threshold_backward">})
// CHECK-SAME: train.phase = #train.phase<backward_input>
// CHECK: %[[E:.*]] = aten.expand(%[[SEED]]
// CHECK-NEXT: %[[R:.*]] = aten.threshold_backward(%[[E]], %[[Y]]
// CHECK-NEXT: %[[DX:.*]] = aten.mm(%[[R]], %[[W]])
// CHECK-NEXT: return %[[DX]], %[[R]]

// CHECK-LABEL: func.func @backward_weight(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32> {train.role = #train.role<saved "x">},
// CHECK-SAME: %[[AW:.*]]: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
// CHECK-SAME: %[[R:.*]]: tensor<4x8xf32> {train.role = #train.role<saved "threshold_backward">})
// CHECK-SAME: -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">},
// CHECK-SAME: tensor<8xf32> {train.role = #train.role<gradient "b">})
// CHECK-SAME: train.phase = #train.phase<backward_weight>
// CHECK: %[[RT:.*]] = aten.t(%[[R]])
// CHECK-NEXT: %[[DW:.*]] = aten.mm(%[[RT]], %[[X]])
// CHECK-NEXT: %[[SUM:.*]] = train.accumulate %[[DW]] into %[[AW]]
// CHECK-NEXT: %[[DB:.*]] = aten.sum_dim_int_list(%[[R]]
// CHECK-NEXT: return %[[SUM]], %[[DB]]

func.func @forward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                   %b: tensor<8xf32> {train.role = #train.role<parameter "b">},
                   %x: tensor<4x8xf32> {train.role = #train.role<input "in" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x8xf32> {train.role = #train.role<saved "x">},
        tensor<4x8xf32> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
  %wt = aten.t(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = aten.addmm(%b, %x, %wt) : (tensor<8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = aten.relu(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = aten.sum(%r) : (tensor<4x8xf32>) -> tensor<f32>
  return %loss, %x, %y : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>
}

func.func @backward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<4x8xf32> {train.role = #train.role<saved "x">},
                    %y: tensor<4x8xf32> {train.role = #train.role<saved "y">},
                    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">},
        tensor<4x8xf32> {train.role = #train.role<gradient "in">},
        tensor<8xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32>
  %r = aten.threshold_backward(%e, %y, threshold = 0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %rt = aten.t(%r) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw = aten.mm(%rt, %x) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = train.accumulate %dw into %a : tensor<8x8xf32>
  %db = aten.sum_dim_int_list(%r, dim = [0]) : (tensor<4x8xf32>) -> tensor<8xf32>
  %dx = aten.mm(%r, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %sum, %dx, %db : tensor<8x8xf32>, tensor<4x8xf32>, tensor<8xf32>
}
