// RUN: cleave-opt %s --scale-loss --split-input-file --verify-diagnostics
// RUN: not cleave-opt %S/scale-loss.mlir --split-input-file --scale-loss="init-scale=-1" 2>&1 | FileCheck %s --check-prefix=INIT
// RUN: not cleave-opt %S/scale-loss.mlir --split-input-file --scale-loss="growth-factor=0.5" 2>&1 | FileCheck %s --check-prefix=GROWTH
// RUN: not cleave-opt %S/scale-loss.mlir --split-input-file --scale-loss="backoff-factor=2" 2>&1 | FileCheck %s --check-prefix=BACKOFF
// RUN: not cleave-opt %S/scale-loss.mlir --split-input-file --scale-loss="growth-interval=0" 2>&1 | FileCheck %s --check-prefix=INTERVAL
// RUN: not cleave-opt %S/scale-loss.mlir --split-input-file --scale-loss --scale-loss 2>&1 | FileCheck %s --check-prefix=TWICE
// INIT: error: expects a positive initial scale, a number of f32, found -1.000000e+00
// GROWTH: error: expects a growth above 1, found 5.000000e-01
// BACKOFF: error: expects a backoff between 0 and 1, found 2.000000e+00
// INTERVAL: error: expects an interval of at least 1 step, found 0
// TWICE: error: scales its loss already

// expected-error @below {{has no update function, so there are no gradients to unscale; export it with an optimizer}}
module {
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}
}

// -----

// GradScaler does not unscale gradients of f16 either.
func.func @microbatch(%w: tensor<4xf16> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf16> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf16>
}
func.func @update(%w: tensor<4xf16> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf16> {train.role = #train.role<gradient "w">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4xf16> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // expected-error @below {{takes a gradient with elements of type 'f16', which scaling of the loss does not support; expected f32, bf16 or f64: parameters of f32, and f16 under autocast}}
  %w1 = train.sgd(%w, %g, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf16>
  return %w1 : tensor<4xf16>
}

// -----

// The sum over ranks comes first: one rank's infinity must be everyone's.
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<input "x">})
    -> (tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<4xf32, #dist.on<@mesh, dp = P>>
}
func.func @update(%w: tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32, #dist.on<@mesh, dp = P>> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32, #dist.on<@mesh, dp = R>> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // expected-error @below {{takes a gradient that is P over axis "dp"; reduce it before computing its norm}}
  %s = aten.mul(%g, %w) : (tensor<4xf32, #dist.on<@mesh, dp = P>>, tensor<4xf32, #dist.on<@mesh, dp = R>>) -> tensor<4xf32, #dist.on<@mesh, dp = P>>
  // expected-note @-5 {{the gradient is produced here}}
  %r = dist.all_reduce sum(%s) over @mesh ["dp"] : tensor<4xf32, #dist.on<@mesh, dp = P>> -> tensor<4xf32, #dist.on<@mesh, dp = R>>
  return %r : tensor<4xf32, #dist.on<@mesh, dp = R>>
}
