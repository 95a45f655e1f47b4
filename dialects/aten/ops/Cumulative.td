//===- Cumulative.td - running products, and their gradient -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE
#define CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE

include "dialects/aten/AtenBase.td"

def Aten_CumprodOp : AtenOp<"cumprod", "aten::cumprod"> {
  let summary = "running product along a dimension";
  let description = [{
    Constraints:
    1. The dtype is `dtype`; by default that of `self`, or `i64` if `self` holds integers or bool.
    2. `dim` is a dimension of `self`; negative values count from the end.
    3. The result has the shape of `self` and this dtype.

    ```mlir
    %0 = aten.cumprod(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_DType:$dtype);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let mixes = 1;
}

def Aten_CumprodBackwardOp : AtenOp<"cumprod_backward", "aten::cumprod_backward"> {
  let summary = "gradient of `cumprod` of `input` along a dimension";
  let description = [{
    `output` is the running product. Where `input` has a zero, the formula is another one, as in eager mode.

    Constraints:
    1. `grad` has a floating-point dtype, and `input` and `output` have its shape.
    2. `dim` is a dimension of `input`; negative values count from the end.
    3. The result has the type of `grad`.

    ```mlir
    %0 = aten.cumprod_backward(%g, %x, dim = 1, %y)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad, Aten_Tensor:$input, Aten_ReqInt:$dim, Aten_Tensor:$output);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["grad"];
  let mixes = 1;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE
