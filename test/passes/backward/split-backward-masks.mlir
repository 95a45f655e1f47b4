// RUN: cleave-opt %s --split-input-file --split-backward --verify-split-backward | FileCheck %s

// An op with an output mask is divided: dI asks for the gradient of its input, dW for the others.

// CHECK-LABEL: func.func @backward_input(
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = aten.convolution_backward({{.*}}output_mask = [true, false, false]) : {{.*}} -> (tensor<2x3x8x8xf32>, none, none)
// CHECK-NOT: aten.convolution_backward
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.convolution_backward({{.*}}output_mask = [false, true, true]) : {{.*}} -> (none, tensor<4x3x3x3xf32>, tensor<4xf32>)
module {
func.func @forward(%w: tensor<4x3x3x3xf32> {train.role = #train.role<parameter "w">},
                   %b: tensor<4xf32> {train.role = #train.role<parameter "b">},
                   %x: tensor<2x3x8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<2x4x8x8xf32> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
  %y = aten.convolution(%x, %w, %b, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  %r = aten.relu(%y) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %loss = aten.sum(%r) : (tensor<2x4x8x8xf32>) -> tensor<f32>
  return %loss, %y : tensor<f32>, tensor<2x4x8x8xf32>
}
func.func @backward(%w: tensor<4x3x3x3xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<2x3x8x8xf32> {train.role = #train.role<input "x" batch 0>},
                    %y: tensor<2x4x8x8xf32> {train.role = #train.role<saved "y">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4xf32> {train.role = #train.role<gradient "b">},
        tensor<4x3x3x3xf32> {train.role = #train.role<gradient "w">},
        tensor<2x3x8x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [2, 4, 8, 8]) : (tensor<f32>) -> tensor<2x4x8x8xf32>
  %g = aten.threshold_backward(%e, %y, threshold = 0) : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %d:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [4], stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [true, true, true]) : (tensor<2x4x8x8xf32>, tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>)
  return %d#2, %d#1, %d#0 : tensor<4xf32>, tensor<4x3x3x3xf32>, tensor<2x3x8x8xf32>
}
}

// -----

// Layer norm, and group norm through aten.call; a result that nobody uses is not asked for.

// CHECK-LABEL: func.func @backward_input(
// CHECK: aten.native_layer_norm_backward({{.*}}output_mask = [true, false, false])
// CHECK: aten.call "aten::native_group_norm_backward"({{.*}}output_mask = [true, false, false])
// CHECK-SAME: -> (tensor<2x4x8xf32>, none, none)
// CHECK-LABEL: func.func @backward_weight(
// CHECK: aten.native_layer_norm_backward({{.*}}output_mask = [false, true, false])
// CHECK: aten.call "aten::native_group_norm_backward"({{.*}}output_mask = [false, true, true])
// CHECK-SAME: -> (none, tensor<4xf32>, tensor<4xf32>)
module {
func.func @forward(%w: tensor<8xf32> {train.role = #train.role<parameter "w">},
                   %gw: tensor<4xf32> {train.role = #train.role<parameter "gw">},
                   %gb: tensor<4xf32> {train.role = #train.role<parameter "gb">},
                   %x: tensor<2x4x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<2x4x1xf32> {train.role = #train.role<saved "mean">},
        tensor<2x4x1xf32> {train.role = #train.role<saved "rstd">},
        tensor<2x4x8xf32> {train.role = #train.role<saved "y">},
        tensor<2x2xf32> {train.role = #train.role<saved "gmean">},
        tensor<2x2xf32> {train.role = #train.role<saved "grstd">})
    attributes {train.phase = #train.phase<forward>} {
  %n:3 = aten.call "aten::native_group_norm"(input = %x, weight = %gw, bias = %gb, N = 2, C = 4, HxW = 8, group = 2, eps = 1.0e-05) : (tensor<2x4x8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x8xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %l:3 = aten.native_layer_norm(%n#0, normalized_shape = [8], %w, none, eps = 1.0e-05) : (tensor<2x4x8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>)
  %loss = aten.sum(%l#0) : (tensor<2x4x8xf32>) -> tensor<f32>
  return %loss, %l#1, %l#2, %n#0, %n#1, %n#2 : tensor<f32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>, tensor<2x4x8xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
func.func @backward(%w: tensor<8xf32> {train.role = #train.role<parameter "w">},
                    %gw: tensor<4xf32> {train.role = #train.role<parameter "gw">},
                    %x: tensor<2x4x8xf32> {train.role = #train.role<input "x" batch 0>},
                    %mean: tensor<2x4x1xf32> {train.role = #train.role<saved "mean">},
                    %rstd: tensor<2x4x1xf32> {train.role = #train.role<saved "rstd">},
                    %y: tensor<2x4x8xf32> {train.role = #train.role<saved "y">},
                    %gmean: tensor<2x2xf32> {train.role = #train.role<saved "gmean">},
                    %grstd: tensor<2x2xf32> {train.role = #train.role<saved "grstd">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<2x4x8xf32> {train.role = #train.role<gradient "x">},
        tensor<8xf32> {train.role = #train.role<gradient "w">},
        tensor<4xf32> {train.role = #train.role<gradient "gw">},
        tensor<4xf32> {train.role = #train.role<gradient "gb">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [2, 4, 8]) : (tensor<f32>) -> tensor<2x4x8xf32>
  %l:3 = aten.native_layer_norm_backward(%e, %y, normalized_shape = [8], %mean, %rstd, %w, none, output_mask = [true, true, true]) : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %n:3 = aten.call "aten::native_group_norm_backward"(grad_out = %l#0, input = %x, mean = %gmean, rstd = %grstd, weight = %gw, N = 2, C = 4, HxW = 8, group = 2, output_mask = [true, true, true]) : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>) -> (tensor<2x4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return %n#0, %l#1, %n#1, %n#2 : tensor<2x4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----

// Attention's backward has no mask: with one of its gradients needed for dI it is dI's, and the
// others are by-products. Here the keys are a parameter.

// CHECK-LABEL: func.func @backward_input(
// CHECK-SAME: train.role = #train.role<saved "scaled_dot_product_flash_attention_for_cpu_backward#1">
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu_backward
// CHECK-LABEL: func.func @backward_weight(
// CHECK-SAME: %[[DK:.*]]: tensor<1x1x4x8xf32> {train.role = #train.role<saved "scaled_dot_product_flash_attention_for_cpu_backward#1">}
// CHECK-NOT: aten.
// CHECK: return %[[DK]]
module {
func.func @forward(%k: tensor<1x1x4x8xf32> {train.role = #train.role<parameter "k">},
                   %x: tensor<1x1x4x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<1x1x4x8xf32> {train.role = #train.role<saved "o">},
        tensor<1x1x4xf32> {train.role = #train.role<saved "lse">})
    attributes {train.phase = #train.phase<forward>} {
  %o:2 = aten._scaled_dot_product_flash_attention_for_cpu(%x, %k, %x) : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  %loss = aten.sum(%o#0) : (tensor<1x1x4x8xf32>) -> tensor<f32>
  return %loss, %o#0, %o#1 : tensor<f32>, tensor<1x1x4x8xf32>, tensor<1x1x4xf32>
}
func.func @backward(%k: tensor<1x1x4x8xf32> {train.role = #train.role<parameter "k">},
                    %x: tensor<1x1x4x8xf32> {train.role = #train.role<input "x" batch 0>},
                    %o: tensor<1x1x4x8xf32> {train.role = #train.role<saved "o">},
                    %lse: tensor<1x1x4xf32> {train.role = #train.role<saved "lse">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<1x1x4x8xf32> {train.role = #train.role<gradient "k">},
        tensor<1x1x4x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [1, 1, 4, 8]) : (tensor<f32>) -> tensor<1x1x4x8xf32>
  %d:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%e, %x, %k, %x, %o, %lse, dropout_p = 0.0, is_causal = false) : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>)
  %dx = aten.add(%d#0, %d#2) : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
  return %d#1, %dx : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
}
}
