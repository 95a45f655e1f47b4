// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @hyperparameter
// CHECK-SAME: (%[[P:.*]]: tensor<2xf32>, %[[T:.*]]: tensor<f32>, %[[LR:.*]]: tensor<f64>)
func.func @hyperparameter(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK: %[[B:.*]] = train.hyperparameter(%[[T]]) {name = "beta1", schedule = #train.schedule<table, values = dense<[7.500000e-01, 5.000000e-01]> : tensor<2xf64>, end = 2>} : (tensor<f32>) -> tensor<f64>
  %b = train.hyperparameter(%t)
      {name = "beta1", schedule = #train.schedule<table, values = dense<[0.75, 0.5]> : tensor<2xf64>, end = 2>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: train.adamw(%[[P]], %[[P]], %[[P]], %[[P]], %[[T]], %[[LR]]) beta1 %[[B]] {beta2 = 7.500000e-01 : f64, eps = 1.000000e-08 : f64, weight_decay = 0.000000e+00 : f64} : tensor<2xf32>
  %p1, %m1, %v1 = train.adamw(%p, %p, %p, %p, %t, %lr) beta1 %b
      {beta2 = 0.75 : f64, eps = 1.0e-08 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  // CHECK: train.sgd(%[[P]], %[[P]], %[[P]], %[[T]], %[[LR]]) momentum %[[B]] {dampening = 0.000000e+00 : f64, nesterov = true, weight_decay = 0.000000e+00 : f64} : tensor<2xf32>
  %p2, %b2 = train.sgd(%p, %p, %p, %t, %lr) momentum %b
      {dampening = 0.0 : f64, nesterov = true, weight_decay = 0.0 : f64} : tensor<2xf32>
  return %p1, %p2 : tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @encoded
func.func @encoded(%p: tensor<2xf32, "p">, %t: tensor<f32, "t">, %lr: tensor<f64, "lr">, %b: tensor<f64, "lr">) -> tensor<2xf32, "p"> {
  // CHECK: train.sgd
  // CHECK-SAME: momentum %{{.*}} : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  %p1, %b1 = train.sgd(%p, %p, %p, %t, %lr) momentum %b
      {dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  return %p1 : tensor<2xf32, "p">
}

// CHECK-LABEL: func.func @group
func.func @group(%t: tensor<f32>) -> tensor<f64> {
  // CHECK: train.hyperparameter(%{{.*}}) {group = 1 : i64, name = "momentum", schedule = #train.schedule<table, starts = [0], values = dense<9.000000e-01> : tensor<1xf64>>}
  %0 = train.hyperparameter(%t)
      {name = "momentum", group = 1 : i64, schedule = #train.schedule<table, starts = [0], values = dense<[0.9]> : tensor<1xf64>>}
      : (tensor<f32>) -> tensor<f64>
  return %0 : tensor<f64>
}
