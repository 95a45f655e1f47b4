// RUN: cleave-opt %s --load-pass-plugin=%plugin \
// RUN:   --scale-learning-rate="parameter=body. factor=0.5" | FileCheck %s
// RUN: not cleave-opt %s --load-pass-plugin=%plugin \
// RUN:   --scale-learning-rate="parameter=tail factor=0.5" 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: scale-learning-rate.mlir{{.*}}error: updates no parameter whose name starts with 'tail'

func.func @microbatch(
    %w: tensor<2x2xf32> {train.role = #train.role<parameter "body.weight">},
    %h: tensor<2x2xf32> {train.role = #train.role<parameter "head.weight">})
    -> (tensor<2x2xf32> {train.role = #train.role<gradient "body.weight">},
        tensor<2x2xf32> {train.role = #train.role<gradient "head.weight">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %h, %w : tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(
    %h: tensor<2x2xf32> {train.role = #train.role<parameter "head.weight">},
    %w: tensor<2x2xf32> {train.role = #train.role<parameter "body.weight">},
    %gh: tensor<2x2xf32> {train.role = #train.role<gradient "head.weight">},
    %gw: tensor<2x2xf32> {train.role = #train.role<gradient "body.weight">},
    %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<2x2xf32> {train.role = #train.role<parameter "head.weight">},
        tensor<2x2xf32> {train.role = #train.role<parameter "body.weight">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: train.sgd(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
  // CHECK-NOT: lr_scale
  // CHECK: train.sgd({{.*}}) {{.*}}lr_scale = 5.000000e-01 : f64
  %h1 = train.sgd(%h, %gh, %t, %lr)
      {momentum = 0.0, dampening = 0.0, nesterov = false, weight_decay = 0.0} : tensor<2x2xf32>
  %w1 = train.sgd(%w, %gw, %t, %lr)
      {momentum = 0.0, dampening = 0.0, nesterov = false, weight_decay = 0.0} : tensor<2x2xf32>
  return %h1, %w1 : tensor<2x2xf32>, tensor<2x2xf32>
}
