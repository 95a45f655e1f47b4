// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

// An op on a bucket changes what later ones find, in this function or another: none goes because nobody
// uses its result. Ops without state go.

dist.mesh @mesh ["dp" = 2]
train.bucket @b of f32 ["w" : tensor<4x2xf32>] over @mesh ["dp"]

// CHECK-LABEL: func.func @contribute
// CHECK-NEXT: train.contribute
// CHECK-NEXT: return
func.func @contribute(%g: tensor<4x2xf32>, %0: !train.bucket<@b : tensor<8xf32>>) {
  %1 = train.contribute %g to "w" in %0 : tensor<4x2xf32>, !train.bucket<@b : tensor<8xf32>>
  return
}

// CHECK-LABEL: func.func @contribute_mm
// CHECK-NEXT: train.contribute_mm
// CHECK-NEXT: return
func.func @contribute_mm(%a: tensor<4x3xf32>, %c: tensor<3x2xf32>, %0: !train.bucket<@b : tensor<8xf32>>) {
  %1 = train.contribute_mm(%a, %c) to "w" in %0 : (tensor<4x3xf32>, tensor<3x2xf32>), !train.bucket<@b : tensor<8xf32>>
  return
}

// The reduction that other ranks wait for.
// CHECK-LABEL: func.func @reduce_bucket
// CHECK-NEXT: train.reduce_bucket
// CHECK-NEXT: return
func.func @reduce_bucket(%0: !train.bucket<@b : tensor<8xf32>>) {
  %1 = train.reduce_bucket %0 : !train.bucket<@b : tensor<8xf32>>
  return
}

// Without it, the next step would write into a buffer that is being reduced.
// CHECK-LABEL: func.func @wait_bucket
// CHECK-NEXT: train.wait_bucket
// CHECK-NEXT: return
func.func @wait_bucket(%0: !train.bucket<@b : tensor<8xf32>>) {
  %g = train.wait_bucket %0 : !train.bucket<@b : tensor<8xf32>> -> tensor<4x2xf32>
  return
}

// CHECK-LABEL: func.func @stateless
// CHECK-SAME: (%[[G:.*]]: tensor<4x2xf32>, %[[A:.*]]: tensor<4x2xf32>, %{{.*}}: tensor<f32>)
// CHECK-NEXT: %[[S:.*]] = train.accumulate %[[G]] into %[[A]]
// CHECK-NEXT: return %[[S]], %[[S]]
func.func @stateless(%g: tensor<4x2xf32>, %a: tensor<4x2xf32>, %step: tensor<f32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = train.accumulate %g into %a : tensor<4x2xf32>
  %1 = train.accumulate %g into %a : tensor<4x2xf32>
  %lr = train.learning_rate(%step) {base = 1.0e-03 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
}
