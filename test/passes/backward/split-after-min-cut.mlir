// What the backward computes again of the forward may end up in either half, and keeps its mark.

// RUN: cleave-opt %s --partition-joint --split-backward --verify-split-backward | FileCheck %s

// CHECK-LABEL: func.func @backward_input(
// CHECK: aten.cos({{.*}}) {train.recomputed}
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.exp({{.*}}) {train.recomputed}
// CHECK: return
module @recompute {
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<8x8xf32> {train.role = #train.role<gradient "w">},
          tensor<8x8xf32> {train.role = #train.role<gradient "x">})
      attributes {train.phase = #train.phase<microbatch>} {
    %h = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %c = aten.cos(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %e = aten.exp(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = aten.add(%c, %e) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %loss = aten.mean(%y) : (tensor<8x8xf32>) -> tensor<f32>
    %0 = aten.mul(%c, %s) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
    %1 = aten.mul(%e, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %loss, %1, %0 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
