// RUN: cleave-opt %s --canonicalize | FileCheck %s

// What says nothing goes, so that equal steps look equal; what does, however little, stays.

dist.mesh @mesh ["dp" = 2, "fsdp" = 2]

// CHECK: train.bucket @first of f32 ["a" : tensor<4x4xf32>, "b" : tensor<4xf32>] over @mesh [] scatter ["fsdp"]{{$}}
train.bucket @first of f32 ["a" : tensor<4x4xf32>, "b" : tensor<4xf32>] over @mesh [] scatter ["fsdp"] dims [0, 0]
// CHECK: train.bucket @other {{.*}} dims [1, 0]
train.bucket @other of f32 ["a" : tensor<4x4xf32>, "b" : tensor<4xf32>] over @mesh [] scatter ["fsdp"] dims [1, 0]

// CHECK-LABEL: func.func @learning_rate
func.func @learning_rate(%step: tensor<f32>) -> (tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
  // CHECK-NEXT: schedule = #train.schedule<constant>
  %0 = train.learning_rate(%step) {base = 0.1 : f64, schedule = #train.schedule<step, every = 3, factor = 1.0 : f64>} : (tensor<f32>) -> tensor<f64>
  // CHECK-NEXT: schedule = #train.schedule<step,
  %1 = train.learning_rate(%step) {base = 0.1 : f64, schedule = #train.schedule<step, every = 3, factor = 0.999 : f64>} : (tensor<f32>) -> tensor<f64>
  // CHECK-NEXT: schedule = #train.schedule<constant>
  %2 = train.learning_rate(%step) {base = 0.2 : f64, schedule = #train.schedule<warmup_cosine, warmup = 0, total = 9, floor = 1.0 : f64>} : (tensor<f32>) -> tensor<f64>
  // A warmup is below 1 at first.
  // CHECK-NEXT: schedule = #train.schedule<warmup_cosine,
  %3 = train.learning_rate(%step) {base = 0.2 : f64, schedule = #train.schedule<warmup_cosine, warmup = 2, total = 9, floor = 1.0 : f64>} : (tensor<f32>) -> tensor<f64>
  // CHECK-NEXT: schedule = #train.schedule<warmup_cosine,
  %4 = train.learning_rate(%step) {base = 0.2 : f64, schedule = #train.schedule<warmup_cosine, warmup = 0, total = 9, floor = 0.5 : f64>} : (tensor<f32>) -> tensor<f64>
  // CHECK-NEXT: schedule = #train.schedule<constant>
  %5 = train.learning_rate(%step) {base = 0.3 : f64, schedule = #train.schedule<geometric, every = 3, factor = 1.0 : f64>} : (tensor<f32>) -> tensor<f64>
  return %0, %1, %2, %3, %4, %5 : tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
}

// CHECK-LABEL: func.func @adamw
func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>, %step: tensor<f32>, %lr: tensor<f64>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: train.adamw
  // CHECK-NOT: lr_scale
  %a:3 = train.adamw(%p, %g, %m, %v, %step, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64, lr_scale = 1.0 : f64} : tensor<8xf32>
  // CHECK: train.adamw
  // CHECK-SAME: lr_scale = 1.0000000000000002
  %b:3 = train.adamw(%p, %g, %m, %v, %step, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64, lr_scale = 1.0000000000000002 : f64} : tensor<8xf32>
  return %a#0, %b#0 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @sgd
func.func @sgd(%p: tensor<8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>, %step: tensor<f32>, %lr: tensor<f64>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: train.sgd
  // CHECK-SAME: {dampening = 0.000000e+00 : f64, momentum = 0.000000e+00 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64}
  %0 = train.sgd(%p, %g, %step, %lr)
      {momentum = 0.0 : f64, dampening = 0.5 : f64, nesterov = false, weight_decay = 0.0 : f64, lr_scale = 1.0 : f64} : tensor<8xf32>
  // CHECK-NEXT: train.sgd
  // CHECK-SAME: {dampening = 5.000000e-01 : f64, lr_scale = 5.000000e-01 : f64, momentum = 9.000000e-01 : f64
  %1:2 = train.sgd(%p, %g, %b, %step, %lr)
      {momentum = 0.9 : f64, dampening = 0.5 : f64, nesterov = false, weight_decay = 0.0 : f64, lr_scale = 0.5 : f64} : tensor<8xf32>
  return %0, %1#0 : tensor<8xf32>, tensor<8xf32>
}
