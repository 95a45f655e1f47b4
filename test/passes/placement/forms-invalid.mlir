// RUN: cleave-opt %s --partition --verify-diagnostics

#S2 = #dist.on<@mesh, cp = S(2)>
dist.mesh @mesh ["cp" = 2]

// Blocks of 4 queries and 8 keys have no causal diagonal.
func.func @no_diagonal(%q: tensor<2x4x8x8xf32> {dist.placement = #S2},
                       %k: tensor<2x4x16x8xf32> {dist.placement = #S2})
    -> (tensor<2x4x8x8xf32> {dist.placement = #S2}) {
  // expected-error @below {{op does not run on axis "cp" with operands placed as (S(2), S(2), S(2)) and results as (S(2), S(2))}}
  // expected-note @below {{it runs as (R, R, R) to (R, R), (S(0), S(0), S(0)) to (S(0), S(0))}}
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k, is_causal = true, none)
      {dist.operands = [#S2, #S2, #S2], dist.results = [#S2, #S2]}
      : (tensor<2x4x8x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
      -> (tensor<2x4x8x8xf32>, tensor<2x4x8xf32>)
  return %0#0 : tensor<2x4x8x8xf32>
}
