// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects numbers of type f64 in a schedule, found 1.000000e-01 : f32}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = 10, total = 100, floor = 0.1 : f32>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects warmup, total and floor, with 0 <= warmup < total, in a warmup_cosine schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = 10, total = 10, floor = 0.1 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects warmup, total and floor, with 0 <= warmup < total, in a warmup_cosine schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = -1, total = 10, floor = 0.1 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects warmup, total and floor, with 0 <= warmup < total, in a warmup_cosine schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = 1, total = 10>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a floor from 0 to 1 in a schedule, found 2.000000e+00 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<warmup_cosine, warmup = 1, total = 10, floor = 2.0 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a positive 'every' and a factor in a step schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<step, every = 0, factor = 0.1 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a positive 'every' and a factor in a step schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<step, every = 5>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a finite factor of at least 0 in a schedule, found -1.000000e+00 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<step, every = 5, factor = -1.0 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{found a field that a constant schedule does not have}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<constant, every = 5>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{found a field that a step schedule does not have}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<step, every = 5, factor = 0.1 : f64, warmup = 3>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+3 {{failed to parse Train_ScheduleAttr parameter 'kind'}}
  // expected-error @+2 {{expected ::cleave::train::ScheduleKind to be one of: constant, warmup_cosine, step}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<linear>} : (tensor<f32>) -> tensor<f64>
  return
}
