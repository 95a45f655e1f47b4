//===- Contraction.td - matrix products and convolutions -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION
#define CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION

include "dialects/aten/AtenBase.td"

def Aten_MmOp : AtenOp<"mm", "aten::mm"> {
  let summary = "matrix product of two matrices";
  let description = [{
    Constraints:
    1. `self` is M x K, `mat2` is K x N and the result M x N.
    2. All three have one dtype.

    ```mlir
    %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mat2);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION
