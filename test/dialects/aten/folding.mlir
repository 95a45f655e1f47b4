// Views of views: what folds, and what must not.
// RUN: cleave-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: @same_elements(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[D:.*]] = aten.detach(%[[X]])
// CHECK-NEXT: return %[[X]], %[[D]], %[[X]], %[[X]], %[[X]] :
func.func @same_elements(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = aten.alias(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = aten.detach(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = aten.view(%x, size = [4, 8]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = aten.expand(%x, size = [-1, 8]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = aten.slice(%x, dim = 1, start = 0, end = 9223372036854775807) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1, %2, %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: @view_of_view(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: %[[V:.*]] = aten.view(%[[X]], size = [2, 2, 8]) : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
// CHECK-NEXT: return %[[V]] :
func.func @view_of_view(%x: tensor<4x8xf32>) -> tensor<2x2x8xf32> {
  %0 = aten.view(%x, size = [32]) : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = aten.view(%0, size = [2, 2, -1]) : (tensor<32xf32>) -> tensor<2x2x8xf32>
  return %1 : tensor<2x2x8xf32>
}

// CHECK-LABEL: @view_and_back(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: return %[[X]] :
func.func @view_and_back(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = aten.view(%x, size = [32]) : (tensor<4x8xf32>) -> tensor<32xf32>
  %1 = aten.view(%0, size = [4, 8]) : (tensor<32xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: @expand_of_expand(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<1x8xf32>
// CHECK-NEXT: %[[E:.*]] = aten.expand(%[[X]], size = [2, 4, 8]) :
// CHECK-NEXT: return %[[E]] :
func.func @expand_of_expand(%x: tensor<1x8xf32>) -> tensor<2x4x8xf32> {
  %0 = aten.expand(%x, size = [4, -1]) : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %1 = aten.expand(%0, size = [2, -1, -1]) : (tensor<4x8xf32>) -> tensor<2x4x8xf32>
  return %1 : tensor<2x4x8xf32>
}

// CHECK-LABEL: @twice_transposed(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[Y:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK-NEXT: return %[[X]], %[[Y]] :
func.func @twice_transposed(%x: tensor<4x8xf32>, %y: tensor<2x4x8xf32>) -> (tensor<4x8xf32>, tensor<2x4x8xf32>) {
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = aten.t(%0) : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = aten.transpose(%y, dim0 = 1, dim1 = 2) : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  %3 = aten.transpose(%2, dim0 = -1, dim1 = -2) : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<2x4x8xf32>
}

// CHECK-LABEL: @permutes(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x8xf32>
// CHECK-NEXT: %[[P:.*]] = aten.permute(%[[X]], dims = [2, 1, 0]) : (tensor<2x4x8xf32>) -> tensor<8x4x2xf32>
// CHECK-NEXT: return %[[P]], %[[X]] :
func.func @permutes(%x: tensor<2x4x8xf32>) -> (tensor<8x4x2xf32>, tensor<2x4x8xf32>) {
  %0 = aten.permute(%x, dims = [1, 2, 0]) : (tensor<2x4x8xf32>) -> tensor<4x8x2xf32>
  %1 = aten.permute(%0, dims = [1, 0, 2]) : (tensor<4x8x2xf32>) -> tensor<8x4x2xf32>
  %2 = aten.permute(%0, dims = [-1, 0, 1]) : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
  return %1, %2 : tensor<8x4x2xf32>, tensor<2x4x8xf32>
}

// CHECK-LABEL: @squeezes(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]] :
func.func @squeezes(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = aten.unsqueeze(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
  %1 = aten.squeeze_dim(%0, dim = -2) : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
  %2 = aten.squeeze_dim(%x, dim = 0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = aten.squeeze_dims(%x, dim = [0, 1]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = aten.squeeze(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2, %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A square matrix's transpose has the type of the matrix, a reversed slice that of its operand's
// part: types alone prove nothing.
// CHECK-LABEL: @kept(
// CHECK-NEXT: aten.t(
// CHECK-NEXT: aten.transpose(
// CHECK-NEXT: aten.transpose(
// CHECK-NEXT: aten.permute(
// CHECK-NEXT: aten.clone(
// CHECK-NEXT: aten._unsafe_view(
// CHECK-NEXT: aten.add_scalar(
// CHECK-NEXT: aten.mul_scalar(
// CHECK-NEXT: return
func.func @kept(%x: tensor<4x4xf32>, %y: tensor<4x4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4x4xf32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = aten.t(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = aten.transpose(%y, dim0 = 0, dim1 = 1) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %2 = aten.transpose(%1, dim0 = 1, dim1 = 2) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %3 = aten.permute(%y, dims = [1, 0, 2]) : (tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  // A copy has strides of its own.
  %4 = aten.clone(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = aten._unsafe_view(%x, size = [4, 4]) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // x + 0 is not x where x is -0, and x * 1 not x where x is a signalling NaN.
  %6 = aten.add_scalar(%x, other = 0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = aten.mul_scalar(%x, other = 1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %2, %3, %4, %5, %6, %7 : tensor<4x4xf32>, tensor<4x4x4xf32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
