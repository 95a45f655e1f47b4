// What bench/kernels.py measures: the row kernels of transformers, at sizes that stay in the second
// or third level of caches. bench/kernels.py compiles each and compares it with its ops.

!matrix = tensor<512x2048xf32>
!bias = tensor<2048xf32>
!row = tensor<512x1xf32>

exec.kernel @bias_gelu_tanh(%x: !matrix, %b: !bias) -> !matrix {
  %0 = aten.add(%x, %b) : (!matrix, !bias) -> !matrix
  %1 = aten.gelu(%0, approximate = "tanh") : (!matrix) -> !matrix
  exec.return %1 : !matrix
}
exec.kernel @bias_gelu_erf(%x: !matrix, %b: !bias) -> !matrix {
  %0 = aten.add(%x, %b) : (!matrix, !bias) -> !matrix
  %1 = aten.gelu(%0) : (!matrix) -> !matrix
  exec.return %1 : !matrix
}
// With the gradient of the bias.
exec.kernel @bias_gelu_erf_backward(%g: !matrix, %x: !matrix, %b: !bias) -> (!matrix, !bias) {
  %0 = aten.add(%x, %b) : (!matrix, !bias) -> !matrix
  %1 = aten.gelu_backward(%g, %0) : (!matrix, !matrix) -> !matrix
  %2 = aten.sum_dim_int_list(%1, dim = [0]) : (!matrix) -> !bias
  exec.return %1, %2 : !matrix, !bias
}
exec.kernel @bias_silu(%x: !matrix, %b: !bias) -> !matrix {
  %0 = aten.add(%x, %b) : (!matrix, !bias) -> !matrix
  %1 = aten.silu(%0) : (!matrix) -> !matrix
  exec.return %1 : !matrix
}
exec.kernel @swiglu(%x: !matrix, %u: !matrix) -> !matrix {
  %0 = aten.silu(%x) : (!matrix) -> !matrix
  %1 = aten.mul(%0, %u) : (!matrix, !matrix) -> !matrix
  exec.return %1 : !matrix
}
exec.kernel @swiglu_backward(%g: !matrix, %x: !matrix, %u: !matrix) -> (!matrix, !matrix) {
  %0 = aten.silu(%x) : (!matrix) -> !matrix
  %1 = aten.mul(%g, %0) : (!matrix, !matrix) -> !matrix
  %2 = aten.mul(%g, %u) : (!matrix, !matrix) -> !matrix
  %3 = aten.silu_backward(%2, %x) : (!matrix, !matrix) -> !matrix
  exec.return %3, %1 : !matrix, !matrix
}
exec.kernel @layer_norm(%x: !matrix, %w: !bias, %b: !bias) -> (!matrix, !row, !row) {
  %0:3 = aten.native_layer_norm(%x, normalized_shape = [2048], %w, %b, eps = 1.0e-05)
      : (!matrix, !bias, !bias) -> (!matrix, !row, !row)
  exec.return %0#0, %0#1, %0#2 : !matrix, !row, !row
}
exec.kernel @layer_norm_backward(%g: !matrix, %x: !matrix, %m: !row, %r: !row, %w: !bias, %b: !bias)
    -> (!matrix, !bias, !bias) {
  %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [2048], %m, %r, %w, %b,
      output_mask = [true, true, true]) : (!matrix, !matrix, !row, !row, !bias, !bias) -> (!matrix, !bias, !bias)
  exec.return %0#0, %0#1, %0#2 : !matrix, !bias, !bias
}
exec.kernel @residual_layer_norm(%x: !matrix, %y: !matrix, %w: !bias, %b: !bias) -> (!matrix, !matrix, !row, !row) {
  %0 = aten.add(%x, %y) : (!matrix, !matrix) -> !matrix
  %1:3 = aten.native_layer_norm(%0, normalized_shape = [2048], %w, %b, eps = 1.0e-05)
      : (!matrix, !bias, !bias) -> (!matrix, !row, !row)
  exec.return %0, %1#0, %1#1, %1#2 : !matrix, !matrix, !row, !row
}
// As Hugging Face's Llama writes it.
exec.kernel @rms_norm(%x: !matrix, %w: !bias) -> (!matrix, !row) {
  %0 = aten.pow_tensor_scalar(%x, exponent = 2) : (!matrix) -> !matrix
  %1 = aten.mean_dim(%0, dim = [-1], keepdim = true) : (!matrix) -> !row
  %2 = aten.add_scalar(%1, other = 1.0e-06) : (!row) -> !row
  %3 = aten.rsqrt(%2) : (!row) -> !row
  %4 = aten.mul(%x, %3) : (!matrix, !row) -> !matrix
  %5 = aten.mul(%w, %4) : (!bias, !matrix) -> !matrix
  exec.return %5, %3 : !matrix, !row
}
// As autograd differentiates that.
exec.kernel @rms_norm_backward(%g: !matrix, %x: !matrix, %r: !row, %w: !bias) -> (!matrix, !bias) {
  %0 = aten.mul(%x, %r) : (!matrix, !row) -> !matrix
  %1 = aten.mul(%g, %0) : (!matrix, !matrix) -> !matrix
  %2 = aten.sum_dim_int_list(%1, dim = [0]) : (!matrix) -> !bias
  %3 = aten.mul(%g, %w) : (!matrix, !bias) -> !matrix
  %4 = aten.mul(%3, %x) : (!matrix, !matrix) -> !matrix
  %5 = aten.sum_dim_int_list(%4, dim = [1], keepdim = true) : (!matrix) -> !row
  %6 = aten.mul(%3, %r) : (!matrix, !row) -> !matrix
  %7 = aten.pow_tensor_scalar(%r, exponent = 3) : (!row) -> !row
  %8 = aten.mul_scalar(%5, other = -0.5) : (!row) -> !row
  %9 = aten.mul(%8, %7) : (!row, !row) -> !row
  %10 = aten.expand(%9, size = [512, 2048]) : (!row) -> !matrix
  %11 = aten.div_scalar(%10, other = 2048) : (!matrix) -> !matrix
  %12 = aten.mul_scalar(%x, other = 2.0) : (!matrix) -> !matrix
  %13 = aten.mul(%11, %12) : (!matrix, !matrix) -> !matrix
  %14 = aten.add(%6, %13) : (!matrix, !matrix) -> !matrix
  exec.return %14, %2 : !matrix, !bias
}
exec.kernel @softmax(%x: !matrix) -> !matrix {
  %0 = aten._softmax(%x, dim = -1, half_to_float = false) : (!matrix) -> !matrix
  exec.return %0 : !matrix
}
exec.kernel @softmax_backward(%g: !matrix, %y: !matrix) -> !matrix {
  %0 = aten._softmax_backward_data(%g, %y, dim = -1, input_dtype = f32) : (!matrix, !matrix) -> !matrix
  exec.return %0 : !matrix
}
exec.kernel @cross_entropy(%x: !matrix, %t: tensor<512xi64>) -> (!matrix, tensor<f32>, tensor<f32>) {
  %0 = aten._log_softmax(%x, dim = 1, half_to_float = false) : (!matrix) -> !matrix
  %1:2 = aten.nll_loss_forward(%0, %t, none, reduction = 1, ignore_index = -100)
      : (!matrix, tensor<512xi64>) -> (tensor<f32>, tensor<f32>)
  exec.return %0, %1#0, %1#1 : !matrix, tensor<f32>, tensor<f32>
}
exec.kernel @cross_entropy_backward(%g: tensor<f32>, %y: !matrix, %t: tensor<512xi64>, %n: tensor<f32>) -> !matrix {
  %0 = aten.nll_loss_backward(%g, %y, %t, none, reduction = 1, ignore_index = -100, %n)
      : (tensor<f32>, !matrix, tensor<512xi64>, tensor<f32>) -> !matrix
  %1 = aten._log_softmax_backward_data(%0, %y, dim = 1, input_dtype = f32) : (!matrix, !matrix) -> !matrix
  exec.return %1 : !matrix
}
// 8 examples, 16 heads, 128 positions, 64 numbers a head.
exec.kernel @rotary(%q: tensor<8x16x128x64xf32>, %c: tensor<8x1x128x64xf32>, %s: tensor<8x1x128x64xf32>) -> tensor<8x16x128x64xf32> {
  %0 = aten.mul(%q, %c) : (tensor<8x16x128x64xf32>, tensor<8x1x128x64xf32>) -> tensor<8x16x128x64xf32>
  %1 = aten.slice(%q, dim = 3, start = 0, end = 32) : (tensor<8x16x128x64xf32>) -> tensor<8x16x128x32xf32>
  %2 = aten.slice(%q, dim = 3, start = 32, end = 64) : (tensor<8x16x128x64xf32>) -> tensor<8x16x128x32xf32>
  %3 = aten.neg(%2) : (tensor<8x16x128x32xf32>) -> tensor<8x16x128x32xf32>
  %4 = aten.cat([%3, %1], dim = -1) : (tensor<8x16x128x32xf32>, tensor<8x16x128x32xf32>) -> tensor<8x16x128x64xf32>
  %5 = aten.mul(%4, %s) : (tensor<8x16x128x64xf32>, tensor<8x1x128x64xf32>) -> tensor<8x16x128x64xf32>
  %6 = aten.add(%0, %5) : (tensor<8x16x128x64xf32>, tensor<8x16x128x64xf32>) -> tensor<8x16x128x64xf32>
  exec.return %6 : tensor<8x16x128x64xf32>
}
