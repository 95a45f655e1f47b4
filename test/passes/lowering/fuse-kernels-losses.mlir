// RUN: cleave-opt %s --fuse-kernels --split-input-file | FileCheck %s

// Cross-entropy is two kernels: its gradient needs the weight of all rows.
// CHECK: exec.kernel @log_nll(
// CHECK-SAME: -> (tensor<8x32xf32>, tensor<f32>, tensor<f32>)
// CHECK: exec.kernel @nll_log(
// CHECK-SAME: -> tensor<8x32xf32>
// CHECK-LABEL: func.func @cross_entropy
// CHECK-NEXT: exec.launch @log_nll
// CHECK-NEXT: exec.launch @nll_log
// CHECK-NEXT: return
func.func @cross_entropy(%x: tensor<8x32xf32> {train.role = #train.role<input "x">},
                         %t: tensor<8xi64> {train.role = #train.role<target "t">},
                         %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<8x32xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %1:2 = aten.nll_loss_forward(%0, %t, none, reduction = 1, ignore_index = -100) : (tensor<8x32xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  %2 = aten.nll_loss_backward(%seed, %0, %t, none, reduction = 1, ignore_index = -100, %1#1) : (tensor<f32>, tensor<8x32xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x32xf32>
  %3 = aten._log_softmax_backward_data(%2, %0, dim = 1, input_dtype = f32) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  return %1#0, %3 : tensor<f32>, tensor<8x32xf32>
}

// -----

// Without a sum, what follows each row's loss joins; weights are one number for each class, here as
// many as there are rows.
// CHECK: exec.kernel @nll_mul_neg(%arg0: tensor<8x8xf32>, %arg1: tensor<8xi64>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>) -> tensor<8xf32>
// CHECK-LABEL: func.func @each
// CHECK-NEXT: exec.launch
// CHECK-NEXT: return
func.func @each(%x: tensor<8x8xf32> {train.role = #train.role<input "x">},
                %t: tensor<8xi64> {train.role = #train.role<target "t">},
                %w: tensor<8xf32> {train.role = #train.role<input "w">},
                %m: tensor<8xf32> {train.role = #train.role<input "m">})
    -> (tensor<8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0:2 = aten.nll_loss_forward(%x, %t, %w, reduction = 0, ignore_index = -100) : (tensor<8x8xf32>, tensor<8xi64>, tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>)
  %1 = aten.mul(%0#0, %m) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = aten.neg(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// What needs the loss is none of the rows' business, nor is a loss of one example.
// CHECK: exec.kernel @neg_mse(
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @after
// CHECK-NEXT: exec.launch
// CHECK-NEXT: aten.mul_scalar
// CHECK-NEXT: aten.nll_loss_forward
func.func @after(%x: tensor<8x4xf32> {train.role = #train.role<input "x">},
                 %y: tensor<8x4xf32> {train.role = #train.role<target "y">},
                 %one: tensor<4xf32> {train.role = #train.role<input "one">},
                 %t: tensor<i64> {train.role = #train.role<target "t">})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<f32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = aten.mse_loss(%0, %y, reduction = 1) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<f32>
  %2 = aten.mul_scalar(%1, other = 2.0) : (tensor<f32>) -> tensor<f32>
  %3:2 = aten.nll_loss_forward(%one, %t, none, reduction = 1, ignore_index = -100) : (tensor<4xf32>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  return %2, %3#0 : tensor<f32>, tensor<f32>
}

// -----

// One op of many steps is worth a kernel; one pointwise op is none.
// CHECK: exec.kernel @gelu(
// CHECK: exec.kernel @softmax(
// CHECK-NOT: exec.kernel
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: exec.launch @gelu
// CHECK-NEXT: aten.mm
// CHECK-NEXT: exec.launch @softmax
// CHECK-NEXT: aten.mm
// CHECK-NEXT: aten.exp
func.func @alone(%x: tensor<8x8xf32> {train.role = #train.role<input "x">})
    -> (tensor<8x8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.gelu(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.mm(%0, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten._softmax(%1, dim = -1, half_to_float = false) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = aten.mm(%2, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = aten.exp(%3) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
