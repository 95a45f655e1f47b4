// RUN: cleave-opt %s --sync-gradients | FileCheck %s
// RUN: cleave-opt %s --sync-gradients --bucket-gradients | FileCheck %s --check-prefix=BUCKET

// Without an update gradients are added up where they are made, and a reduce function sums them; the
// gradient of an input is not its business.

// CHECK: dist.mesh @mesh ["dp" = ?]
// CHECK-LABEL: func.func @microbatch
// CHECK: %[[A:[a-z0-9]+]]: tensor<4xf32> {train.role = #train.role<accumulator "w">}
// BUCKET: train.bucket @bucket0 of f32 ["w" : tensor<4xf32>] over @mesh ["dp"]
// BUCKET-LABEL: func.func @microbatch
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: %[[G:.*]] = aten.neg
  // CHECK-NEXT: %[[S:.*]] = train.accumulate %[[G]] into %[[A]]
  // BUCKET: train.contribute
  // BUCKET-NEXT: %[[R:.*]] = train.reduce_bucket
  %0 = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.sin
  // CHECK-NEXT: return %[[S]], %{{.*}}
  // BUCKET: return %{{.*}}, %[[R]]
  %1 = aten.sin(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK: func.func @reduce(
// CHECK: %[[T:.*]]: tensor<4xf32> {train.role = #train.role<gradient "w">})
// CHECK: -> (
// CHECK: tensor<4xf32> {train.role = #train.role<gradient "w">})
// CHECK: %[[R:.*]] = dist.all_reduce sum(%[[T]]) over @mesh ["dp"]
// CHECK-NEXT: return %[[R]]
// BUCKET: func.func @reduce(
// BUCKET: %[[B:.*]]: !train.bucket<@bucket0 : tensor<4xf32>> {train.role = #train.role<gradient "bucket0">})
// BUCKET: -> (
// BUCKET: tensor<4xf32> {train.role = #train.role<gradient "w">})
// BUCKET: %[[W:.*]] = train.wait_bucket %[[B]]
// BUCKET-NEXT: return %[[W]]
