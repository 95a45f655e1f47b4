// A microbatch in parts, with everything that a step may have; what each function may ask of the
// others is in split-program-invalid.mlir. Any pass that reads the program checks it.

// RUN: cleave-opt %s --sync-gradients="axis=dp" | FileCheck %s

// CHECK: func.func @unshard
// CHECK-SAME: train.role = #train.role<saved "whole.w">
// CHECK-SAME: train.phase = #train.phase<unshard>
func.func @unshard(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<saved "whole.w">})
    attributes {train.phase = #train.phase<unshard>} {
  %0 = aten.exp(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK: func.func @forward
// CHECK-SAME: #train.role<input "x" batch 0 over ["dp"]>
// CHECK-SAME: train.phase = #train.phase<forward>
func.func @forward(%w: tensor<4xf32> {train.role = #train.role<saved "whole.w">},
                   %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4xf32> {train.role = #train.role<saved "product">})
    attributes {train.phase = #train.phase<forward>, train.draws = 0 : i64} {
  %0 = aten.mul(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.cos(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.sum_dim_int_list(%1, dim = [0]) : (tensor<4xf32>) -> tensor<f32>
  return %2, %0 : tensor<f32>, tensor<4xf32>
}

// CHECK: func.func @backward_input
// CHECK-SAME: train.phase = #train.phase<backward_input>
func.func @backward_input(%s: tensor<f32> {train.role = #train.role<seed>},
                          %p: tensor<4xf32> {train.role = #train.role<saved "product">})
    -> (tensor<4xf32> {train.role = #train.role<saved "d_product">})
    attributes {train.phase = #train.phase<backward_input>} {
  %0 = aten.sin(%p) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.neg(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.mul(%1, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK: func.func @backward_weight
// CHECK-SAME: #train.role<input "x" batch 0 over ["dp"]>
// CHECK-SAME: train.phase = #train.phase<backward_weight>
func.func @backward_weight(%d: tensor<4xf32> {train.role = #train.role<saved "d_product">},
                           %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>},
                           %a: tensor<4xf32> {train.role = #train.role<accumulator "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  %0 = aten.mul(%d, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = train.accumulate %0 into %a : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK: func.func @reduce
// CHECK-SAME: train.phase = #train.phase<reduce>
func.func @reduce(%w: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  return %w : tensor<4xf32>
}

// CHECK: func.func @update
// CHECK: dist.all_reduce
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %w1 = train.sgd(%w, %g, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %w1 : tensor<4xf32>
}
