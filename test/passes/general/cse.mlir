// RUN: cleave-opt %s --cse | FileCheck %s

// Ops are pure: equal ops with equal arguments are one, whatever PyTorch would have them share or
// allocate. What differs in an argument, a type or the place in the random stream stays apart.

// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>) {
  // CHECK: %[[T:.*]] = aten.t(
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK-NOT: aten.t(
  %1 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // CHECK: %[[C:.*]] = aten.clone(
  // CHECK-NOT: aten.clone(
  %2 = aten.clone(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = aten.clone(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = aten.add(%2, %3) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: return %[[T]], %[[T]]
  return %0, %1, %4 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @arguments_differ
func.func @arguments_differ(%x: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = aten.sum_dim_int_list({{.*}}dim = [0]
  // CHECK: %[[B:.*]] = aten.sum_dim_int_list({{.*}}dim = [1]
  %0 = aten.sum_dim_int_list(%x, dim = [0]) : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = aten.sum_dim_int_list(%x, dim = [1]) : (tensor<4x4xf32>) -> tensor<4xf32>
  %2 = aten.sum_dim_int_list(%x, dim = [0]) : (tensor<4x4xf32>) -> tensor<4xf32>
  // CHECK: return %[[A]], %[[B]], %[[A]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = aten.call "aten::roll"({{.*}}shifts = [1])
  %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[B:.*]] = aten.call "aten::roll"({{.*}}shifts = [2])
  %2 = aten.call "aten::roll"(self = %x, shifts = [2], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: return %[[A]], %[[A]], %[[B]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Activation checkpointing computes a value a second time on purpose; its tag keeps it apart.
// CHECK-LABEL: func.func @recomputed
func.func @recomputed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = aten.tanh(%{{.*}}) :
  // CHECK: %[[B:.*]] = aten.tanh(%{{.*}}) {train.backward}
  %0 = aten.tanh(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.tanh(%x) {train.backward} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: return %[[A]], %[[B]]
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @optimizer
func.func @optimizer(%p: tensor<4xf32>, %q: tensor<4xf32>, %t: tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-1: train.learning_rate
  // CHECK-NOT: train.learning_rate
  %lr0 = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %lr1 = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  // CHECK-COUNT-2: train.sgd
  %0 = train.sgd(%p, %q, %t, %lr0)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  %1 = train.sgd(%q, %p, %t, %lr1)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

dist.mesh @mesh ["dp" = 2, "tp" = 2]

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[D:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["dp"]
  // CHECK: %[[T:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"]
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<4xf32>
  %1 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<4xf32>
  %2 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<4xf32>
  // CHECK: return %[[D]], %[[D]], %[[T]]
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
