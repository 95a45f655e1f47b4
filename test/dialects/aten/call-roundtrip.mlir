// What aten.call prints reads back as the same call: tensors in the order of their types, whatever
// the order they were written in; undefined results are `none`.
// RUN: cleave-opt %s | FileCheck %s
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt --emit-bytecode %s | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @order(
// CHECK-SAME: %[[A:.*]]: tensor<3x4xf32>, %[[B:.*]]: tensor<2xi64>
func.func @order(%table: tensor<3x4xf32>, %rows: tensor<2xi64>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  // CHECK: aten.call "aten::embedding"(indices = %[[B]], weight = %[[A]], padding_idx = 0) : (tensor<2xi64>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %0 = aten.call "aten::embedding"(indices = %rows, padding_idx = 0, weight = %table)
      : (tensor<2xi64>, tensor<3x4xf32>) -> tensor<2x4xf32>
  // CHECK: aten.call "aten::embedding"(weight = %[[A]], indices = %[[B]]) : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = aten.call "aten::embedding"(weight = %table, indices = %rows)
      : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// CHECK-LABEL: func.func @lists(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[I:.*]]: tensor<2xi64>, %[[V:.*]]: tensor<2xf32>
func.func @lists(%x: tensor<2x4xf32>, %i: tensor<2xi64>, %v: tensor<2xf32>) -> tensor<2x4xf32> {
  // CHECK: aten.call "aten::index_put"(values = %[[V]], self = %[[X]], indices = [none, %[[I]]], accumulate = true) {train.backward} : (tensor<2xf32>, tensor<2x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %0 = aten.call "aten::index_put"(accumulate = true, values = %v, self = %x, indices = [none, %i])
      {train.backward} : (tensor<2xf32>, tensor<2x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @undefined(
func.func @undefined(%g: tensor<1x2x4x4xf32>, %x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32> {
  // CHECK: -> (none, tensor<2x3x1x1xf32>, none)
  %0:3 = aten.call "aten::convolution_backward"(grad_output = %g, input = %x, weight = %w, stride = [1, 1],
      padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1,
      output_mask = [false, true, false])
      : (tensor<1x2x4x4xf32>, tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> (none, tensor<2x3x1x1xf32>, none)
  return %0#1 : tensor<2x3x1x1xf32>
}

// CHECK-LABEL: func.func @attention(
func.func @attention(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK: aten.call "aten::_scaled_dot_product_flash_attention_for_cpu"
  %0:2 = aten.call "aten::_scaled_dot_product_flash_attention_for_cpu"(query = %q, key = %q, value = %q, dropout_p = 0.0)
      : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %0#0 : tensor<1x2x4x8xf32>
}

// CHECK-LABEL: @library_operator(
// CHECK: aten.call "mine::cube" "(Tensor x) -> Tensor"(x = %{{.*}}) {train.backward} : (tensor<4xf32>) -> tensor<4xf32>
func.func @library_operator(%x: tensor<4xf32>) {
  %0 = aten.call "mine::cube" "(Tensor x) -> Tensor"(x = %x) {train.backward} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
