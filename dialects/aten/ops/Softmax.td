//===- Softmax.td - softmax, its logarithm and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX
#define CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX

include "dialects/aten/AtenBase.td"

class Aten_SoftmaxBaseOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WholeRows;
}

class Aten_SoftmaxForwardOp<string mnemonic, string meaning> : Aten_SoftmaxBaseOp<mnemonic, meaning> {
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype; `f16` if `half_to_float` is true.
    2. `dim` is a dimension of `self`; negative values count from the end.
    3. The result has the shape of `self` and its dtype, or `f32` if `half_to_float` is true.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, dim = -1, half_to_float = false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_ReqBool:$half_to_float);
}
def Aten_SoftmaxOp : Aten_SoftmaxForwardOp<"_softmax", "exponentials along a dimension, divided by their sum">;
def Aten_LogSoftmaxOp : Aten_SoftmaxForwardOp<"_log_softmax", "logarithm of `_softmax`">;

class Aten_SoftmaxBackwardOp<string mnemonic, string forward>
    : Aten_SoftmaxBaseOp<mnemonic, "gradient of `" # forward # "`, given its result `output`"> {
  let description = [{
    Constraints:
    1. `grad_output` has the type of `output`, which is floating-point.
    2. `dim` is a dimension of `output`; negative values count from the end.
    3. The result has the shape of `output` and dtype `input_dtype`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%g, %y, dim = -1, input_dtype = f32)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$output, Aten_ReqInt:$dim,
                       Aten_ReqDType:$input_dtype);
  let linear = ["grad_output"];
  let mixes = 1;
}
def Aten_SoftmaxBackwardDataOp : Aten_SoftmaxBackwardOp<"_softmax_backward_data", "_softmax">;
def Aten_LogSoftmaxBackwardDataOp : Aten_SoftmaxBackwardOp<"_log_softmax_backward_data", "_log_softmax">;

def Aten_SafeSoftmaxOp : Aten_SoftmaxBaseOp<"_safe_softmax", "softmax that returns zeros for slices of -inf"> {
  let description = [{
    Constraints:
    1. `self` and, if given, `dtype` are floating-point.
    2. `dim` is a dimension of `self`; negative values count from the end.
    3. The result has the shape of `self`, and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten._safe_softmax(%x, dim = -1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_DType:$dtype);
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX
