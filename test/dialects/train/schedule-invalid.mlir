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
  // expected-error @+2 {{expected ::cleave::train::ScheduleKind to be one of: constant, warmup_cosine, step, geometric, table}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<linear>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects values of type f64, at least one, in a table schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects values of type f64, at least one, in a table schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, values = dense<[1.0]> : tensor<1xf32>>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects finite values in a table schedule, found value 1: 0x7FF0000000000000 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, values = dense<[1.0, 0x7FF0000000000000]> : tensor<2xf64>>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a start for each of 2 values in a table schedule, from 0 and ascending}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, starts = [0], values = dense<[1.0, 2.0]> : tensor<2xf64>>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a start for each of 2 values in a table schedule, from 0 and ascending}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, starts = [1, 2], values = dense<[1.0, 2.0]> : tensor<2xf64>>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a start for each of 2 values in a table schedule, from 0 and ascending}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, starts = [0, 0], values = dense<[1.0, 2.0]> : tensor<2xf64>>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects the end of a table schedule after its last start 5, found 5}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, starts = [0, 5], values = dense<[1.0, 2.0]> : tensor<2xf64>, end = 5>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects the end of a table schedule after its last start 1, found -1}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<table, values = dense<[1.0, 2.0]> : tensor<2xf64>, end = -1>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{found a field that a constant schedule does not have}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<constant, end = 5>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a positive 'every' and a factor in a geometric schedule}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, schedule = #train.schedule<geometric, every = 0, factor = 0.1 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a factor of at least 0 and less than 1 in a plateau, found 1.000000e+00 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, plateau = #train.plateau<rel, factor = 1.0 : f64, patience = 1, threshold = 0.1 : f64, cooldown = 0, min = 0.0 : f64, eps = 0.0 : f64>, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects patience and cooldown of at least 0 in a plateau, found -1 and 0}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, plateau = #train.plateau<rel, factor = 0.5 : f64, patience = -1, threshold = 0.1 : f64, cooldown = 0, min = 0.0 : f64, eps = 0.0 : f64>, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects a min of at least 0 in a plateau, found -1.000000e+00 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, plateau = #train.plateau<rel, factor = 0.5 : f64, patience = 1, threshold = 0.1 : f64, cooldown = 0, min = -1.0 : f64, eps = 0.0 : f64>, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+2 {{expects finite numbers of type f64 in a plateau, found 0x7FF0000000000000 : f64}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, plateau = #train.plateau<rel, factor = 0.5 : f64, patience = 1, threshold = 0.1 : f64, cooldown = 0, min = 0x7FF0000000000000 : f64, eps = 0.0 : f64>, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+1 {{expects the constant schedule with a plateau, found #train.schedule<geometric, every = 1, factor = 1.000000e-01 : f64>}}
  %0 = train.learning_rate(%t)
      {base = 1.0 : f64, plateau = #train.plateau<rel, factor = 0.5 : f64, patience = 1, threshold = 0.1 : f64, cooldown = 0, min = 0.0 : f64, eps = 0.0 : f64>, schedule = #train.schedule<geometric, every = 1, factor = 0.1 : f64>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+1 {{expects a table as schedule, found #train.schedule<constant>}}
  %0 = train.hyperparameter(%t)
      {name = "beta1", schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @schedule(%t: tensor<f32>) {
  // expected-error @+1 {{expects a group of at least 0, found -1}}
  %0 = train.hyperparameter(%t)
      {name = "beta1", group = -1 : i64, schedule = #train.schedule<table, values = dense<0.5> : tensor<1xf64>, end = 1>} : (tensor<f32>) -> tensor<f64>
  return
}
