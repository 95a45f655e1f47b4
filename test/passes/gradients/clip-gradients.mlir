// RUN: cleave-opt %s --clip-gradients="max-norm=0.5" --split-input-file | FileCheck %s

func.func @microbatch(%a: tensor<8xf32> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32> {train.role = #train.role<parameter "b">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "a">},
        tensor<4xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a, %b : tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @update
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
  // CHECK: %[[NA:.*]] = aten.linalg_vector_norm(%[[GA:[^,]*]], ord = 2.000000e+00) : (tensor<8xf32>) -> tensor<f32>
  // CHECK: %[[NB:.*]] = aten.linalg_vector_norm(%[[GB:[^,]*]], ord = 2.000000e+00) : (tensor<4xf32>) -> tensor<f32>
  // CHECK: %[[ALL:.*]] = aten.stack([%[[NA]], %[[NB]]])
  // CHECK: %[[NORM:.*]] = aten.linalg_vector_norm(%[[ALL]], ord = 2.000000e+00)
  // CHECK: %[[SHIFTED:.*]] = aten.add_scalar(%[[NORM]], other = {{.*}})
  // CHECK: %[[INVERSE:.*]] = aten.reciprocal(%[[SHIFTED]])
  // CHECK: %[[FACTOR:.*]] = aten.mul_scalar(%[[INVERSE]], other = 5.000000e-01)
  // CHECK: %[[BOUNDED:.*]] = aten.clamp(%[[FACTOR]], max = 1.000000e+00)
  // CHECK: %[[CA:.*]] = aten.mul(%[[GA]], %[[BOUNDED]])
  // CHECK: %[[CB:.*]] = aten.mul(%[[GB]], %[[BOUNDED]])
  // CHECK: train.sgd(%{{.*}}, %[[CA]],
  // CHECK: train.sgd(%{{.*}}, %[[CB]],
  %a1 = train.sgd(%a, %ga, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32>
  return %a1, %b1 : tensor<8xf32>, tensor<4xf32>
}

// -----

// A sharded gradient adds its squares over its axis; buckets are awaited before any step.
dist.mesh @mesh ["fsdp" = 2]
train.bucket @bucket0 of f32 ["b" : tensor<4xf32, #dist.on<@mesh, fsdp = R>>]
func.func @microbatch(%a: tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32, #dist.on<@mesh, fsdp = R>> {train.role = #train.role<parameter "b">},
                      %bucket: !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<accumulator "bucket0">})
    -> (tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<gradient "a">},
        !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<gradient "bucket0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = train.contribute %b to "b" in %bucket : tensor<4xf32, #dist.on<@mesh, fsdp = R>>, !train.bucket<@bucket0 : tensor<4xf32>>
  %1 = train.reduce_bucket %0 : !train.bucket<@bucket0 : tensor<4xf32>>
  return %a, %1 : tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>>, !train.bucket<@bucket0 : tensor<4xf32>>
}

// CHECK-LABEL: func.func @update
func.func @update(%a: tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">},
                  %b: tensor<4xf32, #dist.on<@mesh, fsdp = R>> {train.role = #train.role<parameter "b">},
                  %ga: tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<gradient "a">},
                  %bucket: !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<gradient "bucket0">},
                  %t: tensor<f32, #dist.on<@mesh, fsdp = R>> {train.role = #train.role<step>})
    -> (tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>> {train.role = #train.role<parameter "a">},
        tensor<4xf32, #dist.on<@mesh, fsdp = R>> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: train.learning_rate
  // CHECK-NEXT: %[[W:.*]] = train.wait_bucket
  // CHECK-NEXT: %[[SQUARE:.*]] = aten.mul(%[[GA:.*]], %[[GA]])
  // CHECK-NEXT: %[[SUM:.*]] = aten.sum(%[[SQUARE]]) : {{.*}} -> tensor<f32, #[[P:.*]]>
  // CHECK-NEXT: %[[ALL:.*]] = dist.all_reduce sum(%[[SUM]]) over @mesh ["fsdp"] : tensor<f32, #[[P]]> -> tensor<f32, #[[R:.*]]>
  // CHECK-NEXT: aten.sqrt(%[[ALL]])
  // CHECK-NEXT: aten.linalg_vector_norm(%[[W]]
  // CHECK: train.sgd
  // CHECK: train.sgd
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32, #dist.on<@mesh, fsdp = R>>) -> tensor<f64, #dist.on<@mesh, fsdp = R>>
  %a1 = train.sgd(%a, %ga, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>>, tensor<f32, #dist.on<@mesh, fsdp = R>>, tensor<f64, #dist.on<@mesh, fsdp = R>>
  %gb = train.wait_bucket %bucket : !train.bucket<@bucket0 : tensor<4xf32>> -> tensor<4xf32, #dist.on<@mesh, fsdp = R>>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32, #dist.on<@mesh, fsdp = R>>, tensor<f32, #dist.on<@mesh, fsdp = R>>, tensor<f64, #dist.on<@mesh, fsdp = R>>
  return %a1, %b1 : tensor<8xf32, #dist.on<@mesh, fsdp = S(0)>>, tensor<4xf32, #dist.on<@mesh, fsdp = R>>
}

// -----

// The factor is R where one gradient is sharded; what is the same computation everywhere is scaled by an I.
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%a: tensor<8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<parameter "b">})
    -> (tensor<8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<gradient "a">},
        tensor<4xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %a, %b : tensor<8xf32, #dist.on<@mesh, tp = S(0)>>, tensor<4xf32, #dist.on<@mesh, tp = I>>
}

// CHECK-LABEL: func.func @update
// CHECK: %[[FACTOR:.*]] = aten.clamp
// CHECK: aten.mul(%{{.*}}, %[[FACTOR]]) : (tensor<8xf32, #S0_tp>, tensor<f32, #R_tp>)
// CHECK: %[[SAME:.*]] = dist.convert %[[FACTOR]] : tensor<f32, #R_tp> -> tensor<f32, #I_tp>
// CHECK: aten.mul(%{{.*}}, %[[SAME]]) : (tensor<4xf32, #I_tp>, tensor<f32, #I_tp>)
func.func @update(%a: tensor<8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<parameter "a">},
                  %b: tensor<4xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<parameter "b">},
                  %ga: tensor<8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<gradient "a">},
                  %gb: tensor<4xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<gradient "b">},
                  %t: tensor<f32, #dist.on<@mesh, tp = I>> {train.role = #train.role<step>})
    -> (tensor<8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<parameter "a">},
        tensor<4xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32, #dist.on<@mesh, tp = I>>) -> tensor<f64, #dist.on<@mesh, tp = I>>
  %a1 = train.sgd(%a, %ga, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32, #dist.on<@mesh, tp = S(0)>>, tensor<f32, #dist.on<@mesh, tp = I>>, tensor<f64, #dist.on<@mesh, tp = I>>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4xf32, #dist.on<@mesh, tp = I>>, tensor<f32, #dist.on<@mesh, tp = I>>, tensor<f64, #dist.on<@mesh, tp = I>>
  return %a1, %b1 : tensor<8xf32, #dist.on<@mesh, tp = S(0)>>, tensor<4xf32, #dist.on<@mesh, tp = I>>
}

// -----

// Sums that were added up in a wider type (accumulate_in): the norm is of what they are rounded to, once for each, whether a
// fused op takes that or a traced step.
func.func @microbatch(%a: tensor<8xbf16> {train.role = #train.role<parameter "a">},
                      %b: tensor<4xbf16> {train.role = #train.role<parameter "b">},
                      %sa: tensor<8xf32> {train.role = #train.role<accumulator "a">},
                      %sb: tensor<4xf32> {train.role = #train.role<accumulator "b">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "a">},
        tensor<4xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = train.accumulate %a into %sa : tensor<8xbf16> into tensor<8xf32>
  %1 = train.accumulate %b into %sb : tensor<4xbf16> into tensor<4xf32>
  return %0, %1 : tensor<8xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(%a: tensor<8xbf16> {train.role = #train.role<parameter "a">},
                  %b: tensor<4xbf16> {train.role = #train.role<parameter "b">},
                  %ga: tensor<8xf32> {train.role = #train.role<gradient "a">},
                  %gb: tensor<4xf32> {train.role = #train.role<gradient "b">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8xbf16> {train.role = #train.role<parameter "a">},
        tensor<4xbf16> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: %[[RA:.*]] = aten.call "aten::_to_copy"
  // CHECK: %[[RB:.*]] = aten.call "aten::_to_copy"
  // CHECK-NOT: xf32>) -> tensor<f32>
  // CHECK: %[[NA:.*]] = aten.linalg_vector_norm(%[[RA]], ord = 2.000000e+00) : (tensor<8xbf16>) -> tensor<bf16>
  // CHECK: %[[NB:.*]] = aten.linalg_vector_norm(%[[RB]], ord = 2.000000e+00) : (tensor<4xbf16>) -> tensor<bf16>
  // CHECK: aten.stack([%[[NA]], %[[NB]]])
  // CHECK: %[[CA:.*]] = aten.mul(%[[RA]], %{{.*}})
  // CHECK: %[[CB:.*]] = aten.mul(%[[RB]], %{{.*}})
  // CHECK: train.sgd(%{{.*}}, %[[CA]],
  // CHECK: aten.add(%{{.*}}, %[[CB]]
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  %ra = aten.call "aten::_to_copy" sharded "a -> a"(self = %ga, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  %rb = aten.call "aten::_to_copy" sharded "a -> a"(self = %gb, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
  %a1 = train.sgd(%a, %ra, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xbf16>
  %b1 = aten.add(%b, %rb, alpha = -1.000000e-01) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  return %a1, %b1 : tensor<8xbf16>, tensor<4xbf16>
}
