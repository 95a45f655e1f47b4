// What is saved in three cases: the old value of a buffer that the forward updates; the sums of a
// residual stream, each of which needs the one before, although adding is cheap; and a gradient that
// is a value of the forward.

// RUN: cleave-opt %s --split-input-file --partition-joint | FileCheck %s

// CHECK-LABEL: module @buffer
// CHECK: func.func @forward(%[[OLD:[^:]*]]: tensor<4xf32> {train.role = #train.role<buffer "b">}
// CHECK-SAME: -> (tensor<4xf32> {train.role = #train.role<buffer "b">}, tensor<4xf32> {train.role = #train.role<saved "b">})
// CHECK: %[[NEW:.*]] = aten.exp(%[[OLD]])
// CHECK-NEXT: return %[[NEW]], %[[OLD]]
// CHECK: func.func @backward(
// CHECK-NOT: buffer
// CHECK-SAME: %[[SAVED:[^:]*]]: tensor<4xf32> {train.role = #train.role<saved "b">}
// CHECK: aten.mul(%[[SAVED]],
module @buffer {
  func.func @microbatch(
      %b: tensor<4xf32> {train.role = #train.role<buffer "b">},
      %x: tensor<4xf32> {train.role = #train.role<input "x">},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<4xf32> {train.role = #train.role<buffer "b">},
          tensor<4xf32> {train.role = #train.role<gradient "x">})
      attributes {train.phase = #train.phase<microbatch>} {
    %new = aten.exp(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = aten.mul(%b, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %new, %0 : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// The first sum is of arguments alone and nothing to keep; each later one is saved.
// CHECK-LABEL: module @residual
// CHECK: func.func @forward(
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x4xf32> {train.role = #train.role<saved "add">}, tensor<4x4xf32> {train.role = #train.role<saved "add.1">})
module @residual {
  func.func @microbatch(
      %w: tensor<4x4xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<4x4xf32> {train.role = #train.role<input "x">},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<4x4xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %x0 = aten.add(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f0 = aten.mm(%x0, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %x1 = aten.add(%x0, %f0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f1 = aten.mm(%x1, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %x2 = aten.add(%x1, %f1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %f2 = aten.mm(%x2, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %x3 = aten.add(%x2, %f2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %loss = aten.mean(%x3) : (tensor<4x4xf32>) -> tensor<f32>
    %g2 = aten.mul(%x2, %s) : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %g1 = aten.mul(%x1, %g2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %g0 = aten.mul(%x0, %g1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %loss, %g0 : tensor<f32>, tensor<4x4xf32>
  }
}

// -----

// CHECK-LABEL: module @constant
// CHECK: func.func @backward(%[[X:[^:]*]]: tensor<4xf32> {train.role = #train.role<input "x">})
// CHECK-NEXT: aten.cos(%[[X]])
module @constant {
  func.func @microbatch(
      %x: tensor<4xf32> {train.role = #train.role<input "x">})
      -> (tensor<4xf32> {train.role = #train.role<output "0">},
          tensor<4xf32> {train.role = #train.role<gradient "x">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.sin(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = aten.cos(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
