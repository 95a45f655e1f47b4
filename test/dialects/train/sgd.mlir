// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @plain
// CHECK-SAME: (%[[P:.*]]: tensor<2xbf16>, %[[T:.*]]: tensor<f32>, %[[LR:.*]]: tensor<f64>)
func.func @plain(%p: tensor<2xbf16>, %t: tensor<f32>, %lr: tensor<f64>) -> tensor<2xbf16> {
  // CHECK: %{{.*}} = train.sgd(%[[P]], %[[P]], %[[T]], %[[LR]])
  // CHECK-SAME: {dampening = 0.000000e+00 : f64, momentum = 0.000000e+00 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64} : tensor<2xbf16>
  %p1 = train.sgd(%p, %p, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xbf16>
  return %p1 : tensor<2xbf16>
}

// CHECK-LABEL: func.func @momentum
// CHECK-SAME: (%[[P:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<2xf32>, %[[T:.*]]: tensor<f32>, %[[LR:.*]]: tensor<f64>)
func.func @momentum(%p: tensor<2xf32>, %b: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>)
    -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK: %[[P1:.*]], %[[B1:.*]] = train.sgd(%[[P]], %[[P]], %[[B]], %[[T]], %[[LR]])
  // CHECK-SAME: lr_scale = 2.000000e+00 : f64, momentum = 9.000000e-01 : f64, nesterov = true
  %p1, %b1 = train.sgd(%p, %p, %b, %t, %lr)
      {momentum = 0.9 : f64, dampening = 0.0 : f64, nesterov = true, weight_decay = 0.1 : f64, lr_scale = 2.0 : f64}
      : tensor<2xf32>
  // CHECK: return %[[P1]], %[[B1]]
  return %p1, %b1 : tensor<2xf32>, tensor<2xf32>
}
