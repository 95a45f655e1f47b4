//===- Contraction.td - matrix products -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION
#define CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION

include "dialects/aten/AtenBase.td"

class Aten_ProductOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let mixes = 1;
}

def Aten_MmOp : Aten_ProductOp<"mm", "product of two matrices"> {
  let description = [{
    Constraints:
    1. `self` is M x K and `mat2` K x N.
    2. Both have the same dtype.
    3. The result is M x N, with the same dtype.

    ```mlir
    %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mat2);
  let sharding = Aten_ShardingText<"mk, kn -> mn">;
  let flops = "countProductFlops(getSelf(), getResult())";
  let linear = ["self", "mat2"];
}

def Aten_BmmOp : Aten_ProductOp<"bmm", "product of two batches of matrices"> {
  let description = [{
    Constraints:
    1. `self` is B x M x K and `mat2` B x K x N.
    2. Both have the same dtype.
    3. The result is B x M x N, with the same dtype.

    ```mlir
    %0 = aten.bmm(%a, %b) : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mat2);
  let sharding = Aten_ShardingText<"bmk, bkn -> bmn">;
  let flops = "countProductFlops(getSelf(), getResult())";
  let linear = ["self", "mat2"];
}

def Aten_AddmmOp : Aten_ProductOp<"addmm", "`beta * self + alpha * (mat1 @ mat2)`"> {
  let description = [{
    A single kernel: results are not bitwise equal to those of `aten.mm` followed by `aten.add`.

    Constraints:
    1. `mat1` is M x K and `mat2` K x N.
    2. All operands have the same dtype.
    3. The result is M x N, with the same dtype.
    4. `self` broadcasts to M x N.

    ```mlir
    %0 = aten.addmm(%bias, %a, %b)
        : (tensor<16xf32>, tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mat1, Aten_Tensor:$mat2, Aten_Scalar:$beta,
                       Aten_Scalar:$alpha);
  let sharding = Aten_ShardingText<"+~mn, mk, kn -> mn">;
  let flops = "countProductFlops(getMat1(), getResult())";
  let linear = ["self, mat1", "self, mat2"];
}

def Aten_BaddbmmOp : Aten_ProductOp<"baddbmm", "`beta * self + alpha * (batch1 @ batch2)`"> {
  let description = [{
    Constraints:
    1. `batch1` is B x M x K and `batch2` B x K x N.
    2. All operands have the same dtype.
    3. The result is B x M x N, with the same dtype.
    4. `self` broadcasts to B x M x N.

    ```mlir
    %0 = aten.baddbmm(%c, %a, %b, beta = 0.5)
        : (tensor<4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$batch1, Aten_Tensor:$batch2,
                       Aten_Scalar:$beta, Aten_Scalar:$alpha);
  let sharding = Aten_ShardingText<"+~bmn, bmk, bkn -> bmn">;
  let flops = "countProductFlops(getBatch1(), getResult())";
  let linear = ["self, batch1", "self, batch2"];
}

def Aten_MvOp : Aten_ProductOp<"mv", "product of a matrix and a vector"> {
  let description = [{
    Constraints:
    1. `self` is M x K and `vec` has K elements.
    2. Both have the same dtype.
    3. The result has M elements with the same dtype.

    ```mlir
    %0 = aten.mv(%a, %x) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$vec);
  let sharding = Aten_ShardingText<"mk, k -> m">;
  let flops = "countProductFlops(getSelf(), getResult())";
  let linear = ["self", "vec"];
}

def Aten_DotOp : Aten_ProductOp<"dot", "inner product of two vectors"> {
  let description = [{
    Constraints:
    1. `self` and `tensor` have K elements.
    2. Both have the same dtype.
    3. The result is 0-d, with the same dtype.

    ```mlir
    %0 = aten.dot(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$tensor);
  let sharding = Aten_ShardingText<"k, k ->">;
  let flops = "countProductFlops(getSelf(), getResult())";
  let linear = ["self", "tensor"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION
