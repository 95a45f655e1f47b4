// Scaled dot-product attention: text and bytecode read back as they were printed.
// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: @_scaled_dot_product_flash_attention_for_cpu(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%{{.*}}, %{{.*}}, %{{.*}}, dropout_p = 0.000000e+00, is_causal = true, none) : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32xf32>)
func.func @_scaled_dot_product_flash_attention_for_cpu(%q: tensor<2x4x32x8xbf16>, %k: tensor<2x4x32x8xbf16>, %v: tensor<2x4x32x8xbf16>) {
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>, tensor<2x4x32x8xbf16>) -> (tensor<2x4x32x8xbf16>, tensor<2x4x32xf32>)
  return
}

// CHECK-LABEL: @_scaled_dot_product_flash_attention_for_cpu_2(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, scale = 2.500000e-01) : (tensor<2x4x16x8xf32>, tensor<2x4x12x8xf32>, tensor<2x4x12x8xf32>, tensor<2x1x16x12xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
func.func @_scaled_dot_product_flash_attention_for_cpu_2(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x12x8xf32>, %v: tensor<2x4x12x8xf32>, %m: tensor<2x1x16x12xf32>) {
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, %m, scale = 0.25) : (tensor<2x4x16x8xf32>, tensor<2x4x12x8xf32>, tensor<2x4x12x8xf32>, tensor<2x1x16x12xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return
}

// CHECK-LABEL: @_scaled_dot_product_flash_attention_for_cpu_3(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%{{.*}}, %{{.*}}, %{{.*}}, none) : (tensor<2x4x16x8xf64>, tensor<2x4x16x8xf64>, tensor<2x4x16x8xf64>) -> (tensor<2x4x16x8xf64>, tensor<2x4x16xf64>)
func.func @_scaled_dot_product_flash_attention_for_cpu_3(%q: tensor<2x4x16x8xf64>, %k: tensor<2x4x16x8xf64>, %v: tensor<2x4x16x8xf64>) {
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (tensor<2x4x16x8xf64>, tensor<2x4x16x8xf64>, tensor<2x4x16x8xf64>) -> (tensor<2x4x16x8xf64>, tensor<2x4x16xf64>)
  return
}

// CHECK-LABEL: @_scaled_dot_product_flash_attention_for_cpu_backward(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dropout_p = 0.000000e+00, is_causal = false, %{{.*}}, scale = 2.500000e-01) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>, tensor<2x1x16x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
func.func @_scaled_dot_product_flash_attention_for_cpu_backward(%g: tensor<2x4x16x8xf32>, %q: tensor<2x4x16x8xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x16x8xf32>, %o: tensor<2x4x16x8xf32>, %l: tensor<2x4x16xf32>, %m: tensor<2x1x16x16xf32>) {
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = false, %m, scale = 0.25) : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16xf32>, tensor<2x1x16x16xf32>) -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
  return
}

// CHECK-LABEL: @_scaled_dot_product_flash_attention_for_cpu_backward_2(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu_backward(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dropout_p = 0.000000e+00, is_causal = true, none) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>)
func.func @_scaled_dot_product_flash_attention_for_cpu_backward_2(%g: tensor<2x4x16x8xbf16>, %q: tensor<2x4x16x8xbf16>, %k: tensor<2x4x16x8xbf16>, %v: tensor<2x4x16x8xbf16>, %o: tensor<2x4x16x8xbf16>, %l: tensor<2x4x16xf32>) {
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none) : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16xf32>) -> (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16>)
  return
}
