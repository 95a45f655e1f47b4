// RUN: cleave-opt %s --sync-gradients --bucket-gradients="bucket-size-mb=0.0001 first-bucket-mb=0.00004 require-accumulations=4" | FileCheck %s
// RUN: cleave-opt %s --sync-gradients --bucket-gradients="bucket-size-mb=0.0001 first-bucket-mb=0.00004" --emit-bytecode | cleave-opt | FileCheck %s --check-prefix=ANY
// RUN: cleave-opt %s --bucket-gradients | FileCheck %s --check-prefix=LOCAL

// Gradients are ready in the order d, c, b, a: the first bucket holds at most 41 bytes, the others at
// most 104. Parameters with other hyper-parameters (b) have a bucket of their own.

// CHECK: train.bucket @bucket0 of f32 ["d" : tensor<8xf32>] over @mesh ["dp"] accumulations 4
// CHECK: train.bucket @bucket1 of f32 ["b" : tensor<8xf32>] over @mesh ["dp"] accumulations 4
// CHECK: train.bucket @bucket2 of f32 ["c" : tensor<4x4xf32>, "a" : tensor<8xf32>] over @mesh ["dp"] accumulations 4
// ANY: train.bucket @bucket0 of f32 ["d" : tensor<8xf32>] over @mesh ["dp"]{{$}}
// Without reductions the buckets are local.
// LOCAL: train.bucket @bucket0 of f32 ["b" : tensor<8xf32>]{{$}}
// LOCAL: train.bucket @bucket1 of f32 ["d" : tensor<8xf32>, "c" : tensor<4x4xf32>, "a" : tensor<8xf32>]{{$}}

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[B0:[a-z0-9]+]]: !train.bucket<@bucket0 : tensor<8xf32>> {train.role = #train.role<accumulator "bucket0">}
// CHECK: %[[B1:[a-z0-9]+]]: !train.bucket<@bucket1 : tensor<8xf32>> {train.role = #train.role<accumulator "bucket1">}
// CHECK: %[[B2:[a-z0-9]+]]: !train.bucket<@bucket2 : tensor<24xf32>> {train.role = #train.role<accumulator "bucket2">}
// CHECK: tensor<f32> {train.role = #train.role<loss>},
// CHECK-NEXT: !train.bucket<@bucket0 : tensor<8xf32>> {train.role = #train.role<gradient "bucket0">}
func.func @microbatch(
    %a: tensor<8xf32> {train.role = #train.role<parameter "a">},
    %b: tensor<8xf32> {train.role = #train.role<parameter "b">},
    %c: tensor<4x4xf32> {train.role = #train.role<parameter "c">},
    %d: tensor<8xf32> {train.role = #train.role<parameter "d">},
    %aa: tensor<8xf32> {train.role = #train.role<accumulator "a">},
    %ab: tensor<8xf32> {train.role = #train.role<accumulator "b">},
    %ac: tensor<4x4xf32> {train.role = #train.role<accumulator "c">},
    %ad: tensor<8xf32> {train.role = #train.role<accumulator "d">},
    %x: tensor<8xf32> {train.role = #train.role<input "x" batch 0>},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<8xf32> {train.role = #train.role<gradient "a">},
        tensor<8xf32> {train.role = #train.role<gradient "b">},
        tensor<f32> {train.role = #train.role<loss>},
        tensor<4x4xf32> {train.role = #train.role<gradient "c">},
        tensor<8xf32> {train.role = #train.role<gradient "d">})
    attributes {train.phase = #train.phase<microbatch>} {
  // Gradients are contributed where they are made, wherever they are added up.
  // CHECK: %[[GD:.*]] = aten.neg
  // CHECK-NEXT: %[[D:.*]] = train.contribute %[[GD]] to "d" in %[[B0]] : tensor<8xf32>, !train.bucket<@bucket0 : tensor<8xf32>>
  // CHECK-NEXT: %[[R0:.*]] = train.reduce_bucket %[[D]]
  %gd = aten.neg(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[GC:.*]] = aten.exp
  // CHECK-NEXT: %[[C:.*]] = train.contribute %[[GC]] to "c" in %[[B2]]
  %gc = aten.exp(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[GB:.*]] = aten.sin
  // CHECK-NEXT: %[[B:.*]] = train.contribute %[[GB]] to "b" in %[[B1]]
  // CHECK-NEXT: %[[R1:.*]] = train.reduce_bucket %[[B]]
  %gb = aten.sin(%x) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[GA:.*]] = aten.cos
  // CHECK-NEXT: %[[A:.*]] = train.contribute %[[GA]] to "a" in %[[C]]
  // CHECK-NEXT: %[[R2:.*]] = train.reduce_bucket %[[A]]
  %ga = aten.cos(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %sa = train.accumulate %ga into %aa : tensor<8xf32>
  %sb = train.accumulate %gb into %ab : tensor<8xf32>
  %sc = train.accumulate %gc into %ac : tensor<4x4xf32>
  %sd = train.accumulate %gd into %ad : tensor<8xf32>
  // CHECK: return %{{.*}}, %[[R0]], %[[R1]], %[[R2]]
  return %sa, %sb, %s, %sc, %sd : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<4x4xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @update
// CHECK-NOT: dist.all_reduce
func.func @update(
    %a: tensor<8xf32> {train.role = #train.role<parameter "a">},
    %b: tensor<8xf32> {train.role = #train.role<parameter "b">},
    %c: tensor<4x4xf32> {train.role = #train.role<parameter "c">},
    %d: tensor<8xf32> {train.role = #train.role<parameter "d">},
    %ga: tensor<8xf32> {train.role = #train.role<gradient "a">},
    %gb: tensor<8xf32> {train.role = #train.role<gradient "b">},
    %gc: tensor<4x4xf32> {train.role = #train.role<gradient "c">},
    %gd: tensor<8xf32> {train.role = #train.role<gradient "d">},
    %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8xf32> {train.role = #train.role<parameter "a">},
        tensor<8xf32> {train.role = #train.role<parameter "b">},
        tensor<4x4xf32> {train.role = #train.role<parameter "c">},
        tensor<8xf32> {train.role = #train.role<parameter "d">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // Optimizer steps follow the buckets. Two learning rates that are computed alike are one.
  %lr1 = train.learning_rate(%t) {base = 0.1 : f64, schedule = #train.schedule<constant>}
      : (tensor<f32>) -> tensor<f64>
  // CHECK: %[[W0:.*]] = train.wait_bucket %{{.*}} : !train.bucket<@bucket0 : tensor<8xf32>> -> tensor<8xf32>
  // CHECK-NEXT: train.sgd(%{{.*}}, %[[W0]],
  // CHECK-NEXT: %[[W1:.*]] = train.wait_bucket %{{.*}} : !train.bucket<@bucket1 : tensor<8xf32>> -> tensor<8xf32>
  // CHECK-NEXT: train.sgd(%{{.*}}, %[[W1]],
  // CHECK-NEXT: %[[W2:.*]]:2 = train.wait_bucket %{{.*}} : !train.bucket<@bucket2 : tensor<24xf32>> -> tensor<4x4xf32>, tensor<8xf32>
  // CHECK-NEXT: train.sgd(%{{.*}}, %[[W2]]#0,
  // CHECK-NEXT: train.sgd(%{{.*}}, %[[W2]]#1,
  %a1 = train.sgd(%a, %ga, %t, %lr1)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  %b1 = train.sgd(%b, %gb, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.1 : f64} : tensor<8xf32>
  %c1 = train.sgd(%c, %gc, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4x4xf32>
  %d1 = train.sgd(%d, %gd, %t, %lr)
      {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  return %a1, %b1, %c1, %d1 : tensor<8xf32>, tensor<8xf32>, tensor<4x4xf32>, tensor<8xf32>
}
