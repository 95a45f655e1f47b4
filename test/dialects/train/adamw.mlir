// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @adamw
// CHECK-SAME: (%[[P:.*]]: tensor<2xf32>, %[[T:.*]]: tensor<f32>, %[[LR:.*]]: tensor<f64>)
func.func @adamw(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) -> tensor<2xf32> {
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = train.adamw(%[[P]], %[[P]], %[[P]], %[[P]], %[[T]], %[[LR]])
  // CHECK-SAME: {beta1 = 9.000000e-01 : f64, beta2 = 7.500000e-01 : f64, eps = 1.000000e-08 : f64,
  // CHECK-SAME: weight_decay = 1.000000e-02 : f64} : tensor<2xf32>
  %p1, %m1, %v1 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.75 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64} : tensor<2xf32>
  // CHECK: train.adamw
  // CHECK-SAME: lr_scale = 1.000000e-01 : f64
  %p2, %m2, %v2 = train.adamw(%p1, %p, %m1, %v1, %t, %lr)
      {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, lr_scale = 0.1 : f64, weight_decay = 0.0 : f64}
      : tensor<2xf32>
  return %p2 : tensor<2xf32>
}

// Step and learning rate have types of their own where they have an encoding.
// CHECK-LABEL: func.func @encoded
func.func @encoded(%p: tensor<2xf32, "p">, %t: tensor<f32, "t">) -> tensor<2xf32, "p"> {
  %lr = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32, "t">) -> tensor<f64, "lr">
  // CHECK: train.adamw
  // CHECK-SAME: : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  %p1, %m1, %v1 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.75 : f64, eps = 1.0e-08 : f64, weight_decay = 0.01 : f64}
      : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  // CHECK: train.sgd
  // CHECK-SAME: : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  %p2 = train.sgd(%p1, %p, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}
      : tensor<2xf32, "p">, tensor<f32, "t">, tensor<f64, "lr">
  return %p2 : tensor<2xf32, "p">
}
