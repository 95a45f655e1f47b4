// RUN: cleave-opt %s --scale-loss="init-scale=256 growth-interval=10" --split-input-file | FileCheck %s

// What the update did to gradients is done before it; the sum of zero times each gradient says whether all are finite.
// CHECK: module attributes {train.loss_scaling = #train.loss_scaling<init = 2.560000e+02 : f64, growth = 2.000000e+00 : f64, backoff = 5.000000e-01 : f64, interval = 10>}
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%a: tensor<8xf32> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32> {train.role = #train.role<parameter "b">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "a">},
        tensor<4xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a, %b : tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @reduce
// CHECK-SAME: %[[SCALE:[^:]*]]: tensor<f32> {train.role = #train.role<loss_scale>}
// CHECK: %[[A:.*]] = dist.all_reduce sum(%[[GA:.*]]) over
// CHECK: %[[ZA:.*]] = aten.mul_scalar(%[[A]], other = 0.000000e+00)
// CHECK: %[[FA:.*]] = aten.sum(%[[ZA]])
// CHECK: %[[ZB:.*]] = aten.mul_scalar(%[[B:.*]], other = 0.000000e+00)
// CHECK: %[[FB:.*]] = aten.sum(%[[ZB]])
// CHECK: %[[ALL:.*]] = aten.stack([%[[FA]], %[[FB]]])
// CHECK: %[[FLAG:.*]] = aten.sum(%[[ALL]])
// CHECK: %[[INVERSE:.*]] = aten.reciprocal(%[[SCALE]])
// CHECK: %[[UA:.*]] = aten.mul(%[[A]], %[[INVERSE]])
// CHECK: %[[UB:.*]] = aten.mul(%[[B]], %[[INVERSE]])
// CHECK: return %[[UA]], %[[UB]], %[[FLAG]]

// CHECK-LABEL: func.func @update
// CHECK-SAME: tensor<f32> {train.role = #train.role<stage_sum "nonfinite_gradients">}
// CHECK-NOT: dist.all_reduce
func.func @update(%a: tensor<8xf32> {train.role = #train.role<parameter "a">},
                  %b: tensor<4xf32> {train.role = #train.role<parameter "b">},
                  %ga: tensor<8xf32> {train.role = #train.role<gradient "a">},
                  %gb: tensor<4xf32> {train.role = #train.role<gradient "b">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8xf32> {train.role = #train.role<parameter "a">},
        tensor<4xf32> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  %sum = dist.all_reduce sum(%ga) over @mesh ["dp"] : tensor<8xf32>
  %a1 = train.sgd(%a, %sum, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %a1, %b1 : tensor<8xf32>, tensor<4xf32>
}

// -----

// A sharded gradient adds its part of the flag over its axis; what is narrower is unscaled in its own type.
dist.mesh @mesh ["fsdp" = 2]
func.func @microbatch(%a: tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">})
    -> (tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<gradient "a">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a : tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>>
}

// CHECK-LABEL: func.func @reduce
// CHECK: %[[ZEROS:.*]] = aten.mul_scalar(%[[G:.*]], other = 0.000000e+00)
// CHECK: %[[SUM:.*]] = aten.sum(%[[ZEROS]]) : {{.*}} -> tensor<bf16, #[[P:.*]]>
// CHECK: %[[ALL:.*]] = dist.all_reduce sum(%[[SUM]]) over @mesh ["fsdp"] : tensor<bf16, #[[P]]> -> tensor<bf16, #[[R:.*]]>
// CHECK: %[[INVERSE:.*]] = aten.reciprocal
// CHECK: aten.mul(%[[G]], %[[INVERSE]]) : {{.*}} -> tensor<8xbf16
func.func @update(%a: tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">},
                  %ga: tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<gradient "a">},
                  %t: tensor<f32, #dist.on<@mesh, fsdp = R>> {train.role = #train.role<step>})
    -> (tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32, #dist.on<@mesh, fsdp = R>>) -> tensor<f64, #dist.on<@mesh, fsdp = R>>
  %a1 = train.sgd(%a, %ga, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64}
      : tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>>, tensor<f32, #dist.on<@mesh, fsdp = R>>, tensor<f64, #dist.on<@mesh, fsdp = R>>
  return %a1 : tensor<8xbf16, #dist.on<@mesh, fsdp = S(0)>>
}
