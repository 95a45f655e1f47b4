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
