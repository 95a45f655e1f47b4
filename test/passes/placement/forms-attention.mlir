// RUN: cleave-opt %s --partition --check-spmd-types | FileCheck %s

#S2 = #dist.on<@mesh, cp = S(2)>
dist.mesh @mesh ["cp" = 4]

// Keys and values go to the next rank while the rank attends to those it has: three steps for four
// ranks. Only the first block has the causal mask's diagonal.
// CHECK-LABEL: func @ring_attention
// CHECK: %[[K:.*]] = dist.shift(%[[KEY:.*]]) by 1 wrap over @mesh ["cp"]
// CHECK: %[[V:.*]] = dist.shift(%[[VALUE:.*]]) by 1 wrap over @mesh ["cp"]
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%{{.*}}, %[[KEY]], %[[VALUE]], dropout_p = 0.0{{.*}}, is_causal = true, none)
// CHECK: %[[K2:.*]] = dist.wait %[[K]]
// CHECK: %[[V2:.*]] = dist.wait %[[V]]
// CHECK-COUNT-2: dist.shift
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%{{.*}}, %[[K2]], %[[V2]], dropout_p = 0.0{{.*}}, is_causal = false, none)
// CHECK: aten.lt_scalar(%{{.*}}, other = 1)
// CHECK: aten.masked_fill_scalar(%{{.*}}, value = 0xFFF0000000000000
// CHECK-COUNT-2: dist.shift
// CHECK-COUNT-2: aten._scaled_dot_product_flash_attention_for_cpu
// CHECK-NOT: dist.shift
// CHECK-NOT: aten._scaled_dot_product_flash_attention_for_cpu
// CHECK: return {{.*}} : tensor<2x4x4x8xf32, #S2_cp>, tensor<2x4x4xf32, #S2_cp>
func.func @ring_attention(%q: tensor<2x4x16x8xf32> {dist.placement = #S2},
                          %k: tensor<2x4x16x8xf32> {dist.placement = #S2},
                          %v: tensor<2x4x16x8xf32> {dist.placement = #S2})
    -> (tensor<2x4x16x8xf32> {dist.placement = #S2}, tensor<2x4x16xf32> {dist.placement = #S2}) {
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal = true, none)
      {dist.operands = [#S2, #S2, #S2], dist.results = [#S2, #S2]}
      : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
      -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
  return %0#0, %0#1 : tensor<2x4x16x8xf32>, tensor<2x4x16xf32>
}

// In the backward the gradients of keys and values travel behind them, a step further: home.
// CHECK-LABEL: func @ring_attention_backward
// CHECK-COUNT-14: dist.shift
// CHECK-NOT: dist.shift
// CHECK-NOT: dist.all
// CHECK: return
func.func @ring_attention_backward(
    %g: tensor<2x4x16x8xf32> {dist.placement = #S2}, %q: tensor<2x4x16x8xf32> {dist.placement = #S2},
    %k: tensor<2x4x16x8xf32> {dist.placement = #S2}, %v: tensor<2x4x16x8xf32> {dist.placement = #S2},
    %o: tensor<2x4x16x8xf32> {dist.placement = #S2}, %l: tensor<2x4x16xf32> {dist.placement = #S2})
    -> (tensor<2x4x16x8xf32> {dist.placement = #S2}, tensor<2x4x16x8xf32> {dist.placement = #S2},
        tensor<2x4x16x8xf32> {dist.placement = #S2}) {
  %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(
      %g, %q, %k, %v, %o, %l, dropout_p = 0.0, is_causal = true, none)
      {dist.operands = [#S2, #S2, #S2, #S2, #S2, #S2], dist.results = [#S2, #S2, #S2]}
      : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>,
         tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
      -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>
}
