// RUN: cleave-opt %s --canonicalize | FileCheck %s

// Views that change nothing go and views of views become one, where strides stay what they were.
// Nothing that computes is folded: its bits are eager mode's.

// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
func.func @views(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>) {
  %0 = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = aten.t(%0) : (tensor<8x4xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[V:.*]] = aten.view(%[[X]], size = [32])
  %2 = aten.view(%x, size = [2, 16]) : (tensor<4x8xf32>) -> tensor<2x16xf32>
  %3 = aten.view(%2, size = [32]) : (tensor<2x16xf32>) -> tensor<32xf32>
  %4 = aten.alias(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[X]], %[[V]], %[[X]]
  return %1, %3, %4 : tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>
}

// A copy has memory of its own, and a product with 1 or a sum with 0 may change bits (-0, NaN).
// CHECK-LABEL: func.func @computed
func.func @computed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK: aten.clone
  %0 = aten.clone(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.mul_scalar
  %1 = aten.mul_scalar(%x, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.add_scalar
  %2 = aten.add_scalar(%x, other = 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// No gradient passes a detach, whether it is made later or not.
// CHECK-LABEL: func.func @detached
func.func @detached(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[D:.*]] = aten.detach
  %0 = aten.detach(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.mul(%{{.*}}, %[[D]])
  %1 = aten.mul(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Pairs of reals as complex numbers and back; a conjugate of a conjugate.
// CHECK-LABEL: func.func @pairs
// CHECK-SAME: (%[[X:.*]]: tensor<4x2xf32>, %[[Z:.*]]: tensor<4xcomplex<f32>>)
func.func @pairs(%x: tensor<4x2xf32>, %z: tensor<4xcomplex<f32>>)
    -> (tensor<4x2xf32>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4x2xf32>) {
  %0 = aten.view_as_complex(%x) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  %1 = aten.view_as_real(%0) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %2 = aten.view_as_real(%z) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  %3 = aten.view_as_complex(%2) : (tensor<4x2xf32>) -> tensor<4xcomplex<f32>>
  %4 = aten.conj_physical(%z) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %5 = aten.conj_physical(%4) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  // One conjugate is computed.
  // CHECK-NEXT: %[[C:.*]] = aten.conj_physical(%[[Z]])
  // CHECK-NEXT: %[[R:.*]] = aten.view_as_real(%[[C]])
  %6 = aten.view_as_real(%4) : (tensor<4xcomplex<f32>>) -> tensor<4x2xf32>
  // CHECK-NEXT: return %[[X]], %[[Z]], %[[Z]], %[[R]]
  return %1, %3, %5, %6 : tensor<4x2xf32>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4x2xf32>
}
