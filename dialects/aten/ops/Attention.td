//===- Attention.td - scaled dot-product attention -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ATTENTION
#define CLEAVE_DIALECTS_ATEN_OPS_ATTENTION

include "dialects/aten/AtenBase.td"

def Aten_FlashAttentionForCpuOp
    : AtenOp<"_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_flash_attention_for_cpu"> {
  let summary = "`softmax(query @ key^T * scale + attn_mask) @ value` in one kernel";
  let description = [{
    `scale` defaults to `1 / sqrt(E)`; `is_causal` masks the elements above the diagonal.

    Constraints:
    1. `query` is B x H x L x E, `key` and `value` are B x G x S x E, where G divides H; all have the
       same floating-point dtype.
    2. `dropout_p` is 0; the kernel supports no other value.
    3. `attn_mask` broadcasts to B x H x L x S.
    4. The result is B x H x L x E, with the same dtype.
    5. `logsumexp` is B x H x L, with dtype `f64` if that of the operands is `f64`, else `f32`.

    ```mlir
    %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, is_causal = true, none)
        : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
        -> (tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$query, Aten_Tensor:$key, Aten_Tensor:$value,
                       Aten_Float:$dropout_p, Aten_Bool:$is_causal, Aten_OptTensor:$attn_mask,
                       Aten_Float:$scale);
  let results = (outs Aten_Tensor:$output, Aten_Tensor:$logsumexp);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let flops = "countAttentionFlops(getQuery(), getKey())";
  let linear = ["value -> 0"];
}

def Aten_FlashAttentionForCpuBackwardOp
    : AtenOp<"_scaled_dot_product_flash_attention_for_cpu_backward",
             "aten::_scaled_dot_product_flash_attention_for_cpu_backward"> {
  let summary = "gradients of flash attention";
  let description = [{
    Constraints:
    1. `query` is B x H x L x E, `key` and `value` are B x G x S x E, where G divides H; all have the
       same floating-point dtype.
    2. `dropout_p` is 0; the kernel supports no other value.
    3. `attn_mask` broadcasts to B x H x L x S.
    4. `grad_out` and `out` have the type of `query`.
    5. `logsumexp` is B x H x L, with dtype `f64` if that of the operands is `f64`, else `f32`.
    6. The results have the types of `query`, `key` and `value`.

    ```mlir
    %0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        %g, %q, %k, %v, %out, %lse, dropout_p = 0.0, is_causal = true, none)
        : (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>,
           tensor<2x4x16x8xf32>, tensor<2x4x16xf32>)
        -> (tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>, tensor<2x4x16x8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_out, Aten_Tensor:$query, Aten_Tensor:$key,
                       Aten_Tensor:$value, Aten_Tensor:$out, Aten_Tensor:$logsumexp,
                       Aten_ReqFloat:$dropout_p, Aten_ReqBool:$is_causal, Aten_OptTensor:$attn_mask,
                       Aten_Float:$scale);
  let results = (outs Aten_Tensor:$grad_query, Aten_Tensor:$grad_key, Aten_Tensor:$grad_value);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let flops = "countAttentionBackwardFlops(getQuery(), getKey())";
  let linear = ["grad_out", "value, out -> 0, 1"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_ATTENTION
