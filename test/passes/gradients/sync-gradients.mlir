// RUN: cleave-opt %s --sync-gradients | FileCheck %s --check-prefixes=CHECK,OPEN
// RUN: cleave-opt %s --sync-gradients="axis=dp size=4" | FileCheck %s --check-prefixes=CHECK,SIZED
// RUN: cleave-opt %s --sync-gradients | cleave-opt --mlir-print-debuginfo | cleave-opt | FileCheck %s --check-prefixes=CHECK,OPEN

// One sum per gradient that the update takes, frozen parameters and buffers none; batched inputs
// are divided over the axis, others are the same on every rank.

// OPEN: dist.mesh @mesh ["dp" = ?]
// SIZED: dist.mesh @mesh ["dp" = 4]

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(
    %w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
    %f: tensor<2xf32> {train.role = #train.role<parameter "f" frozen>},
    %a: tensor<2x2xf32> {train.role = #train.role<accumulator "w">},
    // CHECK: #train.role<input "x" batch 0 over ["dp"]>
    %x: tensor<4x2xf32> {train.role = #train.role<input "x" batch 0>},
    // CHECK: #train.role<input "table">
    %t: tensor<2x2xf32> {train.role = #train.role<input "table">},
    // CHECK: #train.role<target "y" batch 1 over ["dp"]>
    %y: tensor<2x4xf32> {train.role = #train.role<target "y" batch 1>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<2x2xf32> {train.role = #train.role<gradient "w">},
        // CHECK: tensor<4x2xf32> {train.role = #train.role<output "0" batch 0>}
        tensor<4x2xf32> {train.role = #train.role<output "0" batch 0>})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK-NOT: dist.all_reduce
  %0 = aten.mm(%y, %x) : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %1 = train.accumulate %0 into %a : tensor<2x2xf32>
  return %s, %1, %x : tensor<f32>, tensor<2x2xf32>, tensor<4x2xf32>
}

// CHECK-LABEL: func.func @update
// CHECK: %[[W:[a-z0-9]+]]: tensor<2x2xf32> {train.role = #train.role<parameter "w">}
// CHECK: %[[G:[a-z0-9]+]]: tensor<2x2xf32> {train.role = #train.role<gradient "w">}
func.func @update(
    %w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
    %g: tensor<2x2xf32> {train.role = #train.role<gradient "w">},
    %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<2x2xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: %[[SUM:.*]] = dist.all_reduce sum(%[[G]]) over @mesh ["dp"] : tensor<2x2xf32>
  // CHECK-NOT: dist.all_reduce
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: train.sgd(%[[W]], %[[SUM]],
  %w1 = train.sgd(%w, %g, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2x2xf32>
  return %w1 : tensor<2x2xf32>
}
