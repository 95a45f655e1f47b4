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

// CHECK-LABEL: func.func @of_a_group
func.func @of_a_group(%t: tensor<f32>) -> tensor<f64> {
  // CHECK: {base = 1.000000e-03 : f64, group = 1 : i64, schedule = #train.schedule<constant>}
  %0 = train.learning_rate(%t) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>, group = 1 : i64}
      : (tensor<f32>) -> tensor<f64>
  return %0 : tensor<f64>
}

// CHECK-LABEL: func.func @schedulers
func.func @schedulers(%t: tensor<f32>) -> (tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) {
  // CHECK: schedule = #train.schedule<geometric, every = 1, factor = 5.000000e-01 : f64>
  %0 = train.learning_rate(%t)
      {base = 0.1 : f64, schedule = #train.schedule<geometric, every = 1, factor = 0.5 : f64>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: schedule = #train.schedule<table, starts = [0, 30], values = dense<[1.000000e-01, 2.500000e-02]> : tensor<2xf64>>
  %1 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, starts = [0, 30], values = dense<[0.1, 0.025]> : tensor<2xf64>>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: schedule = #train.schedule<table, values = dense<[1.000000e-01, 2.500000e-02]> : tensor<2xf64>, end = 2>
  %2 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, values = dense<[0.1, 0.025]> : tensor<2xf64>, end = 2>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: plateau = #train.plateau<rel, factor = 1.000000e-01 : f64, patience = 10, threshold = 1.000000e-04 : f64, cooldown = 0, min = 0.000000e+00 : f64, eps = 1.000000e-08 : f64>
  %3 = train.learning_rate(%t)
      {base = 0.1 : f64, schedule = #train.schedule<constant>,
       plateau = #train.plateau<rel, factor = 0.1 : f64, patience = 10, threshold = 1.0e-4 : f64, cooldown = 0, min = 0.0 : f64, eps = 1.0e-8 : f64>}
      : (tensor<f32>) -> tensor<f64>
  return %0, %1, %2, %3 : tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>
}
