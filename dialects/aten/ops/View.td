//===- View.td - ops whose result shares the memory of their operand -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_VIEW
#define CLEAVE_DIALECTS_ATEN_OPS_VIEW

include "dialects/aten/AtenBase.td"

def Aten_TOp : AtenOp<"t", "aten::t", [ViewLike]> {
  let summary = "transpose of a matrix";
  let description = [{
    Constraints:
    1. `self` has at most two dimensions; the result has them reversed.
    2. Both have one dtype.

    ```mlir
    %0 = aten.t(%a) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_VIEW
