// Members that are sharded along different dimensions share a bucket, which says along which.
//
// RUN: cleave-opt %s --bucket-gradients | FileCheck %s

// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<3x4xf32>, "b" : tensor<4xf32>] over @mesh [] scatter ["dp"] dims [1, 0]
// CHECK-NOT: func.func @reduce
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<3x2xf32> {train.role = #train.role<parameter "w">},
                      %b: tensor<2xf32> {train.role = #train.role<parameter "b">},
                      %x: tensor<3x4xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>},
                      %y: tensor<4xf32> {train.role = #train.role<input "y" batch 0 over ["dp"]>})
    -> (tensor<3x4xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %x) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = aten.mul(%y, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<4xf32>
}
func.func @reduce(%g: tensor<3x4xf32> {train.role = #train.role<gradient "w">},
                  %h: tensor<4xf32> {train.role = #train.role<gradient "b">})
    -> (tensor<3x2xf32> {train.role = #train.role<gradient "w">},
        tensor<2xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<reduce>} {
  %0 = dist.reduce_scatter sum(%g) dim 1 over @mesh ["dp"] : tensor<3x4xf32> -> tensor<3x2xf32>
  %1 = dist.reduce_scatter sum(%h) dim 0 over @mesh ["dp"] : tensor<4xf32> -> tensor<2xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<3x2xf32> {train.role = #train.role<parameter "w">},
                  %b: tensor<2xf32> {train.role = #train.role<parameter "b">},
                  %g: tensor<3x2xf32> {train.role = #train.role<gradient "w">},
                  %h: tensor<2xf32> {train.role = #train.role<gradient "b">})
    -> (tensor<3x2xf32> {train.role = #train.role<parameter "w">},
        tensor<2xf32> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: train.wait_bucket %{{.*}} : !train.bucket<@bucket0 : tensor<16xf32>> -> tensor<3x2xf32>, tensor<2xf32>
  return %g, %h : tensor<3x2xf32>, tensor<2xf32>
}
