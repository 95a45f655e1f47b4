// RUN: cleave-opt %s --bucket-gradients | FileCheck %s

// What the reduce function does with a sharded gradient, the bucket does; the function goes.

// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<4x2xf32>] over @mesh ["dp"] scatter ["fsdp"]
// CHECK-NOT: func.func @reduce
dist.mesh @mesh ["dp" = 2, "fsdp" = 2]
// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<4x2xf32> {train.role = #train.role<input "x" batch 0 over ["dp", "fsdp"]>},
                      %a: tensor<4x2xf32> {train.role = #train.role<accumulator "w">})
    -> (tensor<4x2xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: %[[W:.*]] = dist.all_gather
  %0 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<2x2xf32> -> tensor<4x2xf32>
  // CHECK: train.contribute %[[W]] to "w"
  // CHECK-NEXT: train.reduce_bucket
  %1 = train.accumulate %0 into %a : tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
func.func @reduce(%g: tensor<4x2xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<2x2xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  %0 = dist.reduce_scatter sum(%g) dim 0 over @mesh ["fsdp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<2x2xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<2x2xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: %[[G:.*]] = train.wait_bucket %{{.*}} : !train.bucket<@bucket0 : tensor<8xf32>> -> tensor<2x2xf32>
  // CHECK-NEXT: return %[[G]]
  return %g : tensor<2x2xf32>
}
