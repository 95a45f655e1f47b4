//===- View.td - ops whose results share the memory of their operand -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_VIEW
#define CLEAVE_DIALECTS_ATEN_OPS_VIEW

include "dialects/aten/AtenBase.td"

/// A view with one result of the dtype of `self`.
class Aten_ViewBaseOp<string mnemonic, string schema, string meaning>
    : AtenOp<mnemonic, schema> {
  let isView = 1;
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

//===----------------------------------------------------------------------===//
// The same elements
//===----------------------------------------------------------------------===//

class Aten_IdentityOp<string mnemonic, string meaning, string effect>
    : Aten_ViewBaseOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = effect # [{

    Constraints:
    1. The result has the type of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let sharding = Aten_PointwiseSharding;
  let rows = Aten_OrderedRows;
}
def Aten_AliasOp : Aten_IdentityOp<"alias", "alias of `self`",
    "Folds to its operand."> {
  let hasFolder = 1;
}
def Aten_DetachOp : Aten_IdentityOp<"detach", "`self`, detached from autograd",
    "Gradients do not flow through it, so it does not fold. `--autodiff` uses and then erases it.">;

def Aten_ViewOp : Aten_ViewBaseOp<"view", "aten::view", "reshaped `self`"> {
  let description = [{
    Elements stay in row-major order. Whether the strides of `self` permit a view without a copy is
    known at run time.

    Constraints:
    1. At most one element of `size` is -1; it is inferred from the others.
    2. The result has this shape, and the number of elements and the dtype of `self`.

    ```mlir
    %0 = aten.view(%x, size = [8, -1]) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size);
  let sharding = Aten_ReshapeSharding;
  let resultSizes = ["size"];
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

def Aten_ExpandOp : Aten_ViewBaseOp<"expand", "aten::expand", "dimensions of size 1 repeated, without a copy"> {
  let description = [{
    Constraints:
    1. `size` has at least as many elements as `self` has dimensions; -1 keeps the size of a dimension.
    2. Aligned at the last dimension, each size equals that of `self`, or `self` has 1 there.
    3. The result has this shape and the dtype of `self`.

    ```mlir
    %0 = aten.expand(%x, size = [2, 4, -1]) : (tensor<1x8xf32>) -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size, Aten_Bool:$implicit);
  let rows = Aten_ExchangedRows;
  let resultSizes = ["size"];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Order of dimensions
//===----------------------------------------------------------------------===//

def Aten_TOp : Aten_ViewBaseOp<"t", "aten::t", "transpose of a matrix"> {
  let description = [{
    Constraints:
    1. `self` has at most two dimensions.
    2. The result has the dimensions reversed, and the dtype of `self`.

    ```mlir
    %0 = aten.t(%a) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let hasFolder = 1;
}

def Aten_TransposeOp : Aten_ViewBaseOp<"transpose", "aten::transpose.int", "`self` with two dimensions swapped"> {
  let description = [{
    Constraints:
    1. `dim0` and `dim1` are dimensions of `self`; negative values count from the end.
    2. The result has their sizes swapped, and the dtype of `self`.

    ```mlir
    %0 = aten.transpose(%x, dim0 = 1, dim1 = 2) : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim0, Aten_ReqInt:$dim1);
  let rows = Aten_ExchangedRows;
  let hasFolder = 1;
}

def Aten_PermuteOp : Aten_ViewBaseOp<"permute", "aten::permute", "`self` with its dimensions permuted"> {
  let description = [{
    Constraints:
    1. `dims` lists each dimension of `self` once; negative values count from the end.
    2. Dimension i of the result has the size of dimension `dims[i]` of `self`; the dtype is that
       of `self`.

    ```mlir
    %0 = aten.permute(%x, dims = [2, 0, 1]) : (tensor<2x4x8xf32>) -> tensor<8x2x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dims);
  let rows = Aten_ExchangedRows;
  let hasFolder = 1;
  let hasCanonicalizeMethod = 1;
}

//===----------------------------------------------------------------------===//
// Dimensions of size 1
//===----------------------------------------------------------------------===//

def Aten_UnsqueezeOp : Aten_ViewBaseOp<"unsqueeze", "aten::unsqueeze", "`self` with a new dimension of size 1"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of the result; negative values count from the end.
    2. The result has the shape of `self` with a 1 inserted at `dim`, and the dtype of `self`.

    ```mlir
    %0 = aten.unsqueeze(%x, dim = -1) : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim);
  let rows = Aten_OrderedRows;
}

def Aten_SqueezeOp : Aten_ViewBaseOp<"squeeze", "aten::squeeze", "`self` without its dimensions of size 1"> {
  let description = [{
    Constraints:
    1. The result has the shape of `self` without sizes of 1, and the dtype of `self`.

    ```mlir
    %0 = aten.squeeze(%x) : (tensor<1x4x1xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let rows = Aten_OrderedRows;
  let hasFolder = 1;
}

def Aten_SqueezeDimOp : Aten_ViewBaseOp<"squeeze_dim", "aten::squeeze.dim", "`self` without a dimension if its size is 1"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. The result has the shape of `self`, without `dim` if its size is 1, and the dtype of `self`.

    ```mlir
    %0 = aten.squeeze_dim(%x, dim = 1) : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim);
  let rows = Aten_OrderedRows;
  let hasFolder = 1;
}

def Aten_SqueezeDimsOp : Aten_ViewBaseOp<"squeeze_dims", "aten::squeeze.dims", "`self` without those of several dimensions whose size is 1"> {
  let description = [{
    Constraints:
    1. `dim` lists distinct dimensions of `self`; negative values count from the end.
    2. The result has the shape of `self`, without those of them whose size is 1, and the dtype
       of `self`.

    ```mlir
    %0 = aten.squeeze_dims(%x, dim = [0, 2]) : (tensor<1x4x1xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dim);
  let rows = Aten_OrderedRows;
  let hasFolder = 1;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_VIEW
