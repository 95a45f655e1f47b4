// RUN: cleave-opt %s --fuse-kernels --split-input-file | FileCheck %s

// A rotary embedding: the tables have one of the rows' factors, halves of a row change places, and
// the kernel reads the heads where the product has written them.
// CHECK: exec.kernel @mul_neg_cat_add(%arg0: tensor<2x16x4x8xf32>, %arg1: tensor<1x1x16x8xf32>, %arg2: tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32> {
// CHECK-NEXT: aten.transpose
// CHECK-LABEL: func.func @rotary
// CHECK-NEXT: aten.view
// CHECK-NEXT: %[[R:.*]] = exec.launch
// CHECK-NEXT: return %[[R]]
func.func @rotary(%x: tensor<2x16x32xf32> {train.role = #train.role<input "x">},
                  %cos: tensor<1x1x16x8xf32> {train.role = #train.role<input "cos">},
                  %sin: tensor<1x1x16x8xf32> {train.role = #train.role<input "sin">})
    -> (tensor<2x4x16x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %heads = aten.view(%x, size = [2, 16, 4, 8]) : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %q = aten.transpose(%heads, dim0 = 1, dim1 = 2) : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %0 = aten.mul(%q, %cos) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = aten.slice(%q, dim = 3, start = 0, end = 4) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %2 = aten.slice(%q, dim = 3, start = 4, end = 8) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %3 = aten.neg(%2) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %4 = aten.cat([%3, %1], dim = -1) : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> tensor<2x4x16x8xf32>
  %5 = aten.mul(%4, %sin) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %6 = aten.add(%0, %5) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  return %6 : tensor<2x4x16x8xf32>
}

// -----

// Its gradient, with the copy that puts the heads back.
// CHECK: exec.kernel @mul_neg_slice_add(
// CHECK-SAME: -> tensor<2x16x4x8xf32> {
// CHECK: aten.clone
// CHECK-LABEL: func.func @rotary_backward
// CHECK-NEXT: exec.launch
// CHECK-NEXT: aten._unsafe_view
// CHECK-NEXT: return
func.func @rotary_backward(%g: tensor<2x4x16x8xf32> {train.role = #train.role<input "g">},
                           %cos: tensor<1x1x16x8xf32> {train.role = #train.role<input "cos">},
                           %sin: tensor<1x1x16x8xf32> {train.role = #train.role<input "sin">})
    -> (tensor<2x16x32xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%g, %sin) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = aten.slice(%0, dim = 3, start = 0, end = 4) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %2 = aten.slice(%0, dim = 3, start = 4, end = 8) : (tensor<2x4x16x8xf32>) -> tensor<2x4x16x4xf32>
  %3 = aten.neg(%1) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>
  %4 = aten.slice_backward(%3, input_sizes = [2, 4, 16, 8], dim = 3, start = 4, end = 8, step = 1) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x8xf32>
  %5 = aten.slice_backward(%2, input_sizes = [2, 4, 16, 8], dim = 3, start = 0, end = 4, step = 1) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x8xf32>
  %6 = aten.add(%4, %5) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %7 = aten.mul(%g, %cos) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>
  %8 = aten.add(%6, %7) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x16x8xf32>
  %9 = aten.transpose(%8, dim0 = 1, dim1 = 2) : (tensor<2x4x16x8xf32>) -> tensor<2x16x4x8xf32>
  %10 = aten.clone(%9, memory_format = "contiguous_format") : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x8xf32>
  %11 = aten._unsafe_view(%10, size = [2, 16, 32]) : (tensor<2x16x4x8xf32>) -> tensor<2x16x32xf32>
  return %11 : tensor<2x16x32xf32>
}

// -----

// What is repeated for several heads is computed for each, and never stored, if nothing else needs
// it.
// CHECK: exec.kernel @neg_exp_clone(%arg0: tensor<2x2x16x8xf32>) -> tensor<2x2x3x16x8xf32>
// CHECK-LABEL: func.func @repeat
// CHECK-NEXT: exec.launch @neg_exp_clone
func.func @repeat(%x: tensor<2x2x16x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<2x2x3x16x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
  %1 = aten.exp(%0) : (tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
  %2 = aten.unsqueeze(%1, dim = 2) : (tensor<2x2x16x8xf32>) -> tensor<2x2x1x16x8xf32>
  %3 = aten.expand(%2, size = [2, 2, 3, 16, 8]) : (tensor<2x2x1x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  %4 = aten.clone(%3, memory_format = "contiguous_format") : (tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  return %4 : tensor<2x2x3x16x8xf32>
}

// -----

// Here it is needed elsewhere too, so the kernel ends with it.
// CHECK: exec.kernel @neg_exp(%arg0: tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
// CHECK-LABEL: func.func @repeat_stored
// CHECK: aten.expand
// CHECK-NEXT: aten.clone
func.func @repeat_stored(%x: tensor<2x2x16x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<2x2x3x16x8xf32> {train.role = #train.role<output "0">},
        tensor<2x2x16x8xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
  %1 = aten.exp(%0) : (tensor<2x2x16x8xf32>) -> tensor<2x2x16x8xf32>
  %2 = aten.unsqueeze(%1, dim = 2) : (tensor<2x2x16x8xf32>) -> tensor<2x2x1x16x8xf32>
  %3 = aten.expand(%2, size = [2, 2, 3, 16, 8]) : (tensor<2x2x1x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  %4 = aten.clone(%3, memory_format = "contiguous_format") : (tensor<2x2x3x16x8xf32>) -> tensor<2x2x3x16x8xf32>
  return %4, %1 : tensor<2x2x3x16x8xf32>, tensor<2x2x16x8xf32>
}

// -----

// Two views cut the same rows in different ways; the kernel has both cuts.
// CHECK: exec.kernel @mul_neg(%arg0: tensor<4x6x8xf32>, %arg1: tensor<4x1x8xf32>, %arg2: tensor<12x1x8xf32>) -> tensor<12x2x8xf32>
// CHECK-LABEL: func.func @refine
// CHECK-NEXT: aten.view
// CHECK-NEXT: exec.launch
// CHECK-NEXT: aten.view
// CHECK-NEXT: return
func.func @refine(%x: tensor<24x8xf32> {train.role = #train.role<input "x">},
                  %a: tensor<4x1x8xf32> {train.role = #train.role<input "a">},
                  %b: tensor<12x1x8xf32> {train.role = #train.role<input "b">})
    -> (tensor<24x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.view(%x, size = [4, 6, 8]) : (tensor<24x8xf32>) -> tensor<4x6x8xf32>
  %1 = aten.mul(%0, %a) : (tensor<4x6x8xf32>, tensor<4x1x8xf32>) -> tensor<4x6x8xf32>
  %2 = aten.view(%1, size = [12, 2, 8]) : (tensor<4x6x8xf32>) -> tensor<12x2x8xf32>
  %3 = aten.mul(%2, %b) : (tensor<12x2x8xf32>, tensor<12x1x8xf32>) -> tensor<12x2x8xf32>
  %4 = aten.neg(%3) : (tensor<12x2x8xf32>) -> tensor<12x2x8xf32>
  %5 = aten.view(%4, size = [24, 8]) : (tensor<12x2x8xf32>) -> tensor<24x8xf32>
  return %5 : tensor<24x8xf32>
}

// -----

// Rows of 4 x 6 and of 3 x 8 have no cut in common.
// CHECK: exec.kernel @mul_neg(%arg0: tensor<4x6x8xf32>
// CHECK: exec.kernel @mul_neg_0(%arg0: tensor<3x8x8xf32>
// CHECK-LABEL: func.func @no_common_cut
func.func @no_common_cut(%x: tensor<24x8xf32> {train.role = #train.role<input "x">},
                         %a: tensor<4x1x8xf32> {train.role = #train.role<input "a">},
                         %b: tensor<3x1x8xf32> {train.role = #train.role<input "b">})
    -> (tensor<3x8x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.view(%x, size = [4, 6, 8]) : (tensor<24x8xf32>) -> tensor<4x6x8xf32>
  %1 = aten.mul(%0, %a) : (tensor<4x6x8xf32>, tensor<4x1x8xf32>) -> tensor<4x6x8xf32>
  %2 = aten.neg(%1) : (tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %3 = aten.view(%2, size = [3, 8, 8]) : (tensor<4x6x8xf32>) -> tensor<3x8x8xf32>
  %4 = aten.mul(%3, %b) : (tensor<3x8x8xf32>, tensor<3x1x8xf32>) -> tensor<3x8x8xf32>
  %5 = aten.neg(%4) : (tensor<3x8x8xf32>) -> tensor<3x8x8xf32>
  return %5 : tensor<3x8x8xf32>
}

// -----

// Rows and columns that change places end a kernel, and so do parts of rows that are no windows.
// CHECK: exec.kernel @neg_exp(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: exec.kernel @exp_neg(%arg0: tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-LABEL: func.func @exchanged
// CHECK: aten.t
// CHECK: aten.slice
func.func @exchanged(%x: tensor<4x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<8x2xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = aten.exp(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = aten.t(%1) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %3 = aten.exp(%2) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = aten.neg(%3) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %5 = aten.slice(%4, dim = 1, start = 0, end = 4, step = 2) : (tensor<8x4xf32>) -> tensor<8x2xf32>
  %6 = aten.exp(%5) : (tensor<8x2xf32>) -> tensor<8x2xf32>
  return %6 : tensor<8x2xf32>
}

// -----

// Ops that read the same join, though neither needs the other, and read it once.
// CHECK: exec.kernel @mul_neg_sum(%arg0: tensor<8x4xf32>, %arg1: tensor<8x4xf32>, %arg2: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT: exec.launch
// CHECK-NEXT: return
func.func @siblings(%g: tensor<8x4xf32> {train.role = #train.role<input "g">},
                    %a: tensor<8x4xf32> {train.role = #train.role<input "a">},
                    %b: tensor<8x4xf32> {train.role = #train.role<input "b">})
    -> (tensor<8x4xf32> {train.role = #train.role<output "0">},
        tensor<4xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%g, %a) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = aten.mul(%g, %b) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = aten.neg(%1) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = aten.sum_dim_int_list(%2, dim = [0]) : (tensor<8x4xf32>) -> tensor<4xf32>
  return %0, %3 : tensor<8x4xf32>, tensor<4xf32>
}

// -----

// The backward computes what it needs itself: made in the forward, it would have to be kept.
// CHECK: exec.kernel @neg_exp(
// CHECK: exec.kernel @pow_mul(
// CHECK-LABEL: func.func @phases
// CHECK-NEXT: exec.launch @neg_exp
// CHECK-NEXT: exec.launch @pow_mul
func.func @phases(%x: tensor<8x4xf32> {train.role = #train.role<input "x">})
    -> (tensor<8x4xf32> {train.role = #train.role<output "0">},
        tensor<8x4xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = aten.exp(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = aten.pow_tensor_scalar(%1, exponent = 2) {train.backward} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = aten.mul_scalar(%2, other = 2.0) {train.backward} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1, %3 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A view that is used inside and outside stays outside too: the kernel gives what it views.
// CHECK: exec.kernel @neg_exp(%arg0: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<2x4x4xf32>)
// CHECK-LABEL: func.func @viewed
// CHECK-NEXT: %[[L:.*]]:2 = exec.launch
// CHECK-NEXT: %[[V:.*]] = aten.view(%[[L]]#0
// CHECK-NEXT: return %[[V]], %[[L]]#1
func.func @viewed(%x: tensor<8x4xf32> {train.role = #train.role<input "x">})
    -> (tensor<2x4x4xf32> {train.role = #train.role<output "0">},
        tensor<2x4x4xf32> {train.role = #train.role<output "1">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = aten.view(%0, size = [2, 4, 4]) : (tensor<8x4xf32>) -> tensor<2x4x4xf32>
  %2 = aten.exp(%1) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %1, %2 : tensor<2x4x4xf32>, tensor<2x4x4xf32>
}

// -----

// RMS norm in bf16, computed in f32: a kernel forward, a kernel backward. Both read the input in bf16;
// the wider copy is never stored.
// CHECK: exec.kernel @to_pow_mean_add(%arg0: tensor<2x4x32xbf16>, %arg1: tensor<32xbf16>) -> (tensor<2x4x1xf32>, tensor<2x4x32xbf16>, tensor<2x4x32xbf16>)
// CHECK: exec.kernel @to_mul_sum_pow(
// CHECK-SAME: -> (tensor<1x1x32xbf16>, tensor<2x4x32xbf16>)
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT: exec.launch @to_pow_mean_add
// CHECK-NEXT: exec.launch @to_mul_sum_pow
// CHECK-NEXT: return
func.func @rms_norm(%x: tensor<2x4x32xbf16> {train.role = #train.role<input "x">},
                    %w: tensor<32xbf16> {train.role = #train.role<input "w">},
                    %g: tensor<2x4x32xbf16> {train.role = #train.role<input "g">})
    -> (tensor<2x4x32xbf16> {train.role = #train.role<output "0">},
        tensor<1x1x32xbf16> {train.role = #train.role<output "1">},
        tensor<2x4x32xbf16> {train.role = #train.role<output "2">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten._to_copy(%x, dtype = f32) : (tensor<2x4x32xbf16>) -> tensor<2x4x32xf32>
  %1 = aten.pow_tensor_scalar(%0, exponent = 2) : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %2 = aten.mean_dim(%1, dim = [-1], keepdim = true) : (tensor<2x4x32xf32>) -> tensor<2x4x1xf32>
  %3 = aten.add_scalar(%2, other = 1.0e-05) : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %4 = aten.rsqrt(%3) : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %5 = aten.mul(%0, %4) : (tensor<2x4x32xf32>, tensor<2x4x1xf32>) -> tensor<2x4x32xf32>
  %6 = aten._to_copy(%5, dtype = bf16) : (tensor<2x4x32xf32>) -> tensor<2x4x32xbf16>
  %7 = aten.mul(%w, %6) : (tensor<32xbf16>, tensor<2x4x32xbf16>) -> tensor<2x4x32xbf16>
  %b0 = aten.mul(%g, %w) {train.backward} : (tensor<2x4x32xbf16>, tensor<32xbf16>) -> tensor<2x4x32xbf16>
  %b1 = aten.mul(%g, %6) {train.backward} : (tensor<2x4x32xbf16>, tensor<2x4x32xbf16>) -> tensor<2x4x32xbf16>
  %b2 = aten.sum_dim_int_list(%b1, dim = [0, 1], keepdim = true) {train.backward} : (tensor<2x4x32xbf16>) -> tensor<1x1x32xbf16>
  %b3 = aten._to_copy(%b0, dtype = f32) {train.backward} : (tensor<2x4x32xbf16>) -> tensor<2x4x32xf32>
  %b4 = aten.mul(%b3, %0) {train.backward} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %b5 = aten.mul(%b3, %4) {train.backward} : (tensor<2x4x32xf32>, tensor<2x4x1xf32>) -> tensor<2x4x32xf32>
  %b6 = aten.sum_dim_int_list(%b4, dim = [2], keepdim = true) {train.backward} : (tensor<2x4x32xf32>) -> tensor<2x4x1xf32>
  %b7 = aten.pow_tensor_scalar(%4, exponent = 3) {train.backward} : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %b8 = aten.mul_scalar(%b6, other = -0.5) {train.backward} : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %b9 = aten.mul(%b8, %b7) {train.backward} : (tensor<2x4x1xf32>, tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %b10 = aten.expand(%b9, size = [2, 4, 32]) {train.backward} : (tensor<2x4x1xf32>) -> tensor<2x4x32xf32>
  %b11 = aten.div_scalar(%b10, other = 32) {train.backward} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %b12 = aten.mul_scalar(%0, other = 2.0) {train.backward} : (tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %b13 = aten.mul(%b11, %b12) {train.backward} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %b14 = aten.add(%b5, %b13) {train.backward} : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x32xf32>
  %b15 = aten._to_copy(%b14, dtype = bf16) {train.backward} : (tensor<2x4x32xf32>) -> tensor<2x4x32xbf16>
  return %7, %b2, %b15 : tensor<2x4x32xbf16>, tensor<1x1x32xbf16>, tensor<2x4x32xbf16>
}
