// RUN: cleave-opt %s --autodiff --split-input-file | FileCheck %s

// The example of the pass's description.

// CHECK-LABEL: module @example
module @example {
// CHECK: func.func @microbatch(%[[W:.*]]: tensor<8xf32> {train.role = #train.role<parameter "w">}, %[[SEED:.*]]: tensor<f32> {train.role = #train.role<seed>})
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<8xf32> {train.role = #train.role<gradient "w">})
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: %[[E:.*]] = aten.exp(%[[W]])
  %0 = aten.exp(%w) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[LOSS:.*]] = aten.sum(%[[E]])
  %1 = aten.sum(%0) : (tensor<8xf32>) -> tensor<f32>
  // CHECK: %[[G:.*]] = aten.expand(%[[SEED]], size = [8]) {train.backward}
  // CHECK: %[[GW:.*]] = aten.mul(%[[G]], %[[E]]) {train.backward}
  // CHECK: return %[[LOSS]], %[[GW]]
  return %1 : tensor<f32>
}
}

// -----

// With an update gradients are accumulated; the seed goes before what random ops take; a frozen parameter and one that the loss
// does not depend on get none; a value used several times gets the gradients of its last use first.

// CHECK-LABEL: module @step
module @step {
// CHECK: func.func @microbatch(%[[A:[^:]*]]: tensor<4xf32> {train.role = #train.role<parameter "a" aliases ["b"]>},
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {train.role = #train.role<parameter "c" frozen>},
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {train.role = #train.role<parameter "unused">},
// CHECK-SAME: %[[ACC:[^:]*]]: tensor<4xf32> {train.role = #train.role<accumulator "a">},
// CHECK-SAME: train.role = #train.role<input "x" batch 0>},
// CHECK-SAME: %[[SEED:[^:]*]]: tensor<f32> {train.role = #train.role<seed>},
// CHECK-SAME: train.role = #train.role<rng_seed>},
// CHECK-SAME: train.role = #train.role<rng_offset>})
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4xf32> {train.role = #train.role<output "0">}, tensor<4xf32> {train.role = #train.role<gradient "a">})
func.func @microbatch(
    %a: tensor<4xf32> {train.role = #train.role<parameter "a" aliases ["b"]>},
    %c: tensor<4xf32> {train.role = #train.role<parameter "c" frozen>},
    %u: tensor<4xf32> {train.role = #train.role<parameter "unused">},
    %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>},
    %s: tensor<i64> {train.role = #train.role<rng_seed>},
    %o: tensor<i64> {train.role = #train.role<rng_offset>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.draws = 8 : i64, train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.mul(%0, %c) {train.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %{{.*}}, %[[MASK:.*]] = aten.rng_native_dropout
  %2:2 = aten.rng_native_dropout(%1, %s, %o, p = 0.1, train = true, position = 0, generator = #aten.generator<mt19937>)
      {train.checkpoint = #train.checkpoint<must_save, graph 0>}
      : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  %3 = aten.add(%2#0, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = aten.sum(%3) : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[G:.*]] = aten.expand(%[[SEED]], size = [4]) {train.backward}
  // CHECK: %[[G1:.*]] = aten.native_dropout_backward(%[[G]], %[[MASK]], scale = 1.1111111640930176) {train.backward} :
  // CHECK: %[[G2:.*]] = aten.mul(%[[G1]], %{{.*}}) {train.backward, train.stage = 1 : i64}
  // CHECK: %[[G3:.*]] = aten.mul(%[[G2]], %{{.*}}) {train.backward}
  // CHECK: %[[GA:.*]] = aten.add(%[[G]], %[[G3]]) {train.backward}
  // CHECK: %[[SUM:.*]] = train.accumulate %[[GA]] into %[[ACC]]
  // CHECK: return %{{.*}}, %{{.*}}, %[[SUM]]
  return %4, %3 : tensor<f32>, tensor<4xf32>
}
func.func @update(
    %a: tensor<4xf32> {train.role = #train.role<parameter "a" aliases ["b"]>},
    %g: tensor<4xf32> {train.role = #train.role<gradient "a">},
    %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4xf32> {train.role = #train.role<parameter "a" aliases ["b"]>})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %n = train.sgd(%a, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : tensor<4xf32>
  return %n : tensor<4xf32>
}
}

// -----

// An op without a derivative is none of the pass's business where no gradient flows through it: integers,
// what is detached, what does not reach the loss.

// CHECK-LABEL: module @around
module @around {
// CHECK: func.func @microbatch
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.call "aten::erfinv"(self = %x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.detach(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.call "aten::erfinv"(self = %1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.call "aten::erfinv"(self = %w) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = aten.argmax(%w) : (tensor<4xf32>) -> tensor<i64>
  %5 = aten.mul(%w, %4) : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  %6 = aten.mul(%5, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = aten.mul(%6, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = aten.sum(%7) : (tensor<4xf32>) -> tensor<f32>
  // CHECK: aten.expand
  // CHECK-COUNT-3: aten.mul({{.*}}) {train.backward}
  // CHECK-NEXT: return
  return %8, %3 : tensor<f32>, tensor<4xf32>
}
}
