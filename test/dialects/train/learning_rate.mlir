// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @learning_rate
// CHECK-SAME: (%[[T:.*]]: tensor<f32>)
func.func @learning_rate(%t: tensor<f32>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
  // CHECK: train.learning_rate(%[[T]]) {base = 1.000000e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %0 = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: schedule = #train.schedule<warmup_cosine, warmup = 100, total = 1000, floor = 1.000000e-01 : f64>
  %1 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = 100, total = 1000, floor = 0.1 : f64>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: schedule = #train.schedule<step, every = 30, factor = 5.000000e-01 : f64>
  %2 = train.learning_rate(%t)
      {base = 0.0 : f64, schedule = #train.schedule<step, every = 30, factor = 0.5 : f64>}
      : (tensor<f32>) -> tensor<f64>
  return %0, %1, %2 : tensor<f64>, tensor<f64>, tensor<f64>
}
