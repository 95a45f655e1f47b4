// RUN: cleave-opt %s --split-input-file --verify-diagnostics

func.func @accumulate_integers(%g: tensor<2xi32>) {
  // expected-error @+1 {{operand #0 must be statically shaped tensor}}
  %0 = train.accumulate %g into %g : tensor<2xi32>
  return
}

// -----

func.func @accumulate_two_types(%g: tensor<2xf32>, %a: tensor<2xbf16>) {
  // expected-error @+1 {{failed to verify that all of {accumulator, result} have same type}}
  %0 = "train.accumulate"(%g, %a) : (tensor<2xf32>, tensor<2xbf16>) -> tensor<2xf32>
  return
}

// -----

func.func @negative_rate(%t: tensor<f32>) {
  // expected-error @+1 {{expects base of at least 0.000000e+00, found -1.000000e+00 : f64}}
  %0 = train.learning_rate(%t) {base = -1.0 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @negative_group(%t: tensor<f32>) {
  // expected-error @+1 {{expects a group of at least 0, found -1}}
  %0 = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>, group = -1 : i64}
      : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @infinite_rate(%t: tensor<f32>) {
  // expected-error @+1 {{expects base of at least 0.000000e+00, found 0x7FF0000000000000 : f64}}
  %0 = train.learning_rate(%t) {base = 0x7FF0000000000000 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  return
}

// -----

func.func @beta1(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects beta1 of at least 0.000000e+00 and less than 1.000000e+00, found 1.000000e+00 : f64}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 1.0 : f64, beta2 = 0.9 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @beta2(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects beta2 of at least 0.000000e+00 and less than 1.000000e+00, found -1.000000e-01 : f64}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = -0.1 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @eps(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects eps of at least 0.000000e+00, found -1.000000e+00 : f64}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = -1.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @weight_decay(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects weight_decay of at least 0.000000e+00, found -1.000000e+00 : f64}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = 0.0 : f64, weight_decay = -1.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @sgd_momentum(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects momentum of at least 0.000000e+00, found -1.000000e+00 : f64}}
  %0 = train.sgd(%p, %p, %t, %lr)
      {momentum = -1.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @sgd_weight_decay(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects weight_decay of at least 0.000000e+00, found -1.000000e+00 : f64}}
  %0 = train.sgd(%p, %p, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = -1.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @nesterov_without_momentum(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects momentum and no dampening with nesterov}}
  %0 = train.sgd(%p, %p, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = true, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @nesterov_with_dampening(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects momentum and no dampening with nesterov}}
  %0:2 = train.sgd(%p, %p, %p, %t, %lr)
      {momentum = 0.9 : f64, dampening = 0.1 : f64, nesterov = true, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @momentum_without_buffer(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects a momentum buffer as operand and result if and only if momentum is not 0}}
  %0 = train.sgd(%p, %p, %t, %lr)
      {momentum = 0.9 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @buffer_without_momentum(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects a momentum buffer as operand and result if and only if momentum is not 0}}
  %0:2 = train.sgd(%p, %p, %p, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @sgd_two_types(%p: tensor<2xf32>, %g: tensor<2xf16>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects the parameter's type 'tensor<2xf32>', found 'tensor<2xf16>'}}
  %0 = "train.sgd"(%p, %g, %t, %lr) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 1, 0>,
      momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}>
      : (tensor<2xf32>, tensor<2xf16>, tensor<f32>, tensor<f64>) -> tensor<2xf32>
  return
}

// -----

func.func @sgd_operands(%p: tensor<2xf32>, %t: tensor<f32>) {
  // expected-error @+1 {{expected parameter, gradient, momentum buffer (with momentum), step and learning rate}}
  %0 = train.sgd(%p, %p, %t)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @beta1_twice(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects beta1 as an attribute or an operand, found both}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr) beta1 %lr
      {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @no_beta1(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects beta1 as an attribute or an operand, found neither}}
  %0:3 = train.adamw(%p, %p, %p, %p, %t, %lr)
      {beta2 = 0.9 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @adamw_operands(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expected parameter, gradient, exp_avg, exp_avg_sq, step and learning rate}}
  %0:3 = train.adamw(%p, %p, %p, %t, %lr)
      {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @scheduled_momentum_without_buffer(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>) {
  // expected-error @+1 {{expects a momentum buffer as operand and result if and only if momentum is not 0}}
  %0 = train.sgd(%p, %p, %t, %lr) momentum %lr
      {dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<2xf32>
  return
}

// -----

func.func @scheduled_momentum_type(%p: tensor<2xf32>, %t: tensor<f32>, %lr: tensor<f64>, %m: tensor<f64, "m">) {
  // expected-error @+1 {{expects momentum of the learning rate's type 'tensor<f64>', found 'tensor<f64, "m">'}}
  %0:2 = "train.sgd"(%p, %p, %p, %t, %lr, %m) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1>,
      dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}>
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f64>, tensor<f64, "m">) -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @accumulate_narrower(%g: tensor<2xf32>, %a: tensor<2xbf16>) {
  // expected-error @+1 {{expects to add a gradient up in its own type, or one of f16 or bf16 in f32, found 'tensor<2xf32>' into 'tensor<2xbf16>'}}
  %0 = train.accumulate %g into %a : tensor<2xf32> into tensor<2xbf16>
  return
}

// -----

func.func @accumulate_in_f64(%g: tensor<2xbf16>, %a: tensor<2xf64>) {
  // expected-error @+1 {{or one of f16 or bf16 in f32, found 'tensor<2xbf16>' into 'tensor<2xf64>'}}
  %0 = train.accumulate %g into %a : tensor<2xbf16> into tensor<2xf64>
  return
}

// -----

func.func @accumulate_shape(%g: tensor<2xbf16>, %a: tensor<3xf32>) {
  // expected-error @+1 {{expects to add a gradient up in its own type, or one of f16 or bf16 in f32, found 'tensor<2xbf16>' into 'tensor<3xf32>'}}
  %0 = train.accumulate %g into %a : tensor<2xbf16> into tensor<3xf32>
  return
}
