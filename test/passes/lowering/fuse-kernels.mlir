// RUN: cleave-opt %s --fuse-kernels --split-input-file | FileCheck %s
// RUN: cleave-opt %s --fuse-kernels=min-ops=4 --split-input-file | FileCheck %s --check-prefix=MIN

// The pass's example. Gelu counts for two ops.
// CHECK: exec.kernel @add_gelu(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>) -> tensor<8x32xf32> {
// CHECK-NEXT: aten.add
// CHECK-NEXT: aten.gelu
// CHECK-NEXT: exec.return
// CHECK-LABEL: func.func @pair
// CHECK-NEXT: %[[Y:.*]] = exec.launch @add_gelu(%arg0, %arg1)
// CHECK-NEXT: return %[[Y]]
// MIN-LABEL: func.func @pair
// MIN-NOT: exec.launch
func.func @pair(%x: tensor<8x32xf32> {train.role = #train.role<input "x">},
                %b: tensor<32xf32> {train.role = #train.role<input "b">})
    -> (tensor<8x32xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// -----

// MIN-LABEL: func.func @norm
// A norm as it is written out: a reduction along rows, and what is made of it, over a view.
// CHECK: exec.kernel @pow_mean_add_rsqrt(
// CHECK-SAME: -> tensor<8x32xf32>
// CHECK-LABEL: func.func @norm
// CHECK-NEXT: exec.launch @pow_mean_add_rsqrt
// CHECK-NEXT: aten.mm
func.func @norm(%x: tensor<2x4x32xf32> {train.role = #train.role<input "x">},
                %w: tensor<32xf32> {train.role = #train.role<input "w">},
                %m: tensor<32x8xf32> {train.role = #train.role<input "m">})
    -> (tensor<8x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.pow_tensor_scalar(%x, exponent = 2) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %1 = aten.mean_dim(%0, dim = [-1], keepdim = true) : (tensor<2x4x32xf32>) -> tensor<2x4x1xf32>
  %2 = aten.add_scalar(%1, other = 1.0e-05) : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %3 = aten.rsqrt(%2) : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %4 = aten.mul(%x, %3) : (tensor<2x4x32xf32>, tensor<2x4x1xf32>) -> tensor<2x4x32xf32>
  %5 = aten.mul(%w, %4) : (tensor<32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %6 = aten.view(%5, size = [8, 32]) : (tensor<2x4x32xf32>) -> tensor<8x32xf32>
  %7 = aten.mul_scalar(%6, other = 2.0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %8 = aten.mm(%7, %m) : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  return %8 : tensor<8x8xf32>
}

// -----

// What a product lies between cannot be one kernel, and a view at its edge is not in it.
// CHECK: exec.kernel @neg_exp(
// CHECK: exec.kernel @exp_add(
// CHECK-LABEL: func.func @around
// CHECK-NEXT: %[[A:.*]] = exec.launch @neg_exp(%arg0)
// CHECK-NEXT: %[[M:.*]] = aten.mm(%[[A]], %arg1)
// CHECK-NEXT: %[[S:.*]] = exec.launch @exp_add(%[[M]], %[[A]])
// CHECK-NEXT: aten.view(%[[S]]
func.func @around(%x: tensor<8x8xf32> {train.role = #train.role<input "x">},
                  %w: tensor<8x8xf32> {train.role = #train.role<input "w">})
    -> (tensor<4x2x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.exp(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten.mm(%1, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = aten.exp(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = aten.add(%3, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = aten.view(%4, size = [4, 2, 8]) : (tensor<8x8xf32>) -> tensor<4x2x8xf32>
  return %5 : tensor<4x2x8xf32>
}

// -----

// Equal regions share a kernel. A sum down the columns is finished only with the last row, so what
// needs it comes behind the kernel.
// CHECK: exec.kernel @neg_mul_sum(
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @twice
// CHECK-COUNT-2: exec.launch @neg_mul_sum
// CHECK: aten.add
func.func @twice(%x: tensor<8x4xf32> {train.role = #train.role<input "x">},
                 %y: tensor<8x4xf32> {train.role = #train.role<input "y">})
    -> (tensor<4xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = aten.mul(%0, %x) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = aten.sum_dim_int_list(%1, dim = [0]) : (tensor<8x4xf32>) -> tensor<4xf32>
  %3 = aten.neg(%y) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = aten.mul(%3, %y) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %5 = aten.sum_dim_int_list(%4, dim = [0]) : (tensor<8x4xf32>) -> tensor<4xf32>
  %6 = aten.add(%2, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}
