// RUN: cleave-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expects 'train.loss_scaling' to be a #train.loss_scaling on a module}}
module attributes {train.loss_scaling = 65536.0 : f64} {
}

// -----

// expected-error @+1 {{expects a positive initial scale, a number of f32, found 0.000000e+00}}
module attributes {train.loss_scaling = #train.loss_scaling<init = 0.0 : f64, growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1>} {
}

// -----

// expected-error @+1 {{expects a positive initial scale, a number of f32, found 1.000000e+300}}
module attributes {train.loss_scaling = #train.loss_scaling<init = 1.0e300 : f64, growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1>} {
}

// -----

// expected-error @+1 {{expects a growth above 1, found 1.000000e+00}}
module attributes {train.loss_scaling = #train.loss_scaling<init = 1.0 : f64, growth = 1.0 : f64, backoff = 0.5 : f64, interval = 1>} {
}

// -----

// expected-error @+1 {{expects a backoff between 0 and 1, found 1.000000e+00}}
module attributes {train.loss_scaling = #train.loss_scaling<init = 1.0 : f64, growth = 2.0 : f64, backoff = 1.0 : f64, interval = 1>} {
}

// -----

// expected-error @+1 {{expects an interval of at least 1 step, found 0}}
module attributes {train.loss_scaling = #train.loss_scaling<init = 1.0 : f64, growth = 2.0 : f64, backoff = 0.5 : f64, interval = 0>} {
}

// -----

module {
  train.program
  // expected-error @+1 {{of phase microbatch takes #train.role<loss_scale>, by which reduce functions divide gradients}}
  func.func @microbatch(%s: tensor<f32> {train.role = #train.role<loss_scale>})
      -> (tensor<f32> {train.role = #train.role<output "0">})
      attributes {train.phase = #train.phase<microbatch>} {
    return %s : tensor<f32>
  }
}

// -----

// expected-error @below {{expects elements of type 'f32' for #train.role<loss_scale>, found 'tensor<f64>'}}
func.func @f64(%s: tensor<f64> {train.role = #train.role<loss_scale>}) {
  return
}
