// RUN: cleave-opt %s --autodiff | FileCheck %s

// The gradient of a copy in host memory is that of the value, and stays on the device: it takes no copies.

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[H:.*]] = dist.offload %{{.*}} : tensor<8xf32>
// CHECK: %[[X:.*]] = dist.reload %[[H]] : tensor<8xf32>
// CHECK: aten.mul(%{{.*}}, %[[X]])
// CHECK-NOT: dist.offload
// CHECK-NOT: dist.reload
// CHECK: return
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xf32> {train.role = #train.role<input "x">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %y = aten.mul(%w, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %h = dist.offload %y : tensor<8xf32>
  %a = aten.exp(%y) : (tensor<8xf32>) -> tensor<8xf32>
  %b = dist.reload %h : tensor<8xf32>
  %c = aten.mul(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = aten.sum(%c) : (tensor<8xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
