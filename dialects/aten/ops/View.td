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
def Aten_AliasOp : Aten_IdentityOp<"alias", "another name for `self`",
    "Canonicalizes to its operand."> {
  let hasFolder = 1;
}
def Aten_DetachOp : Aten_IdentityOp<"detach", "`self`, cut off from autograd",
    "No gradient passes it, so it does not fold. `--autodiff`, which needs it, erases it.">;

def Aten_ViewOp : Aten_ViewBaseOp<"view", "aten::view", "`self` in another shape"> {
  let description = [{
    The elements stay in row-major order. Whether the strides of `self` allow it without a copy is
    known when the program runs.

    Constraints:
    1. `size` has at most one -1, which stands for what the other sizes leave.
    2. The result has this shape, as many elements as `self` and its dtype.

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

def Aten_ExpandOp : Aten_ViewBaseOp<"expand", "aten::expand", "dimensions of size 1 repeated without copying"> {
  let description = [{
    Constraints:
    1. `size` has at least as many elements as `self` has dimensions; a -1 keeps the size of a
       dimension of `self`.
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
    2. The result has them reversed, and the dtype of `self`.

    ```mlir
    %0 = aten.t(%a) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let hasFolder = 1;
}

def Aten_TransposeOp : Aten_ViewBaseOp<"transpose", "aten::transpose.int", "two dimensions exchanged"> {
  let description = [{
    Constraints:
    1. `dim0` and `dim1` are dimensions of `self`; a negative one counts from the back.
    2. The result has their sizes exchanged, and the dtype of `self`.

    ```mlir
    %0 = aten.transpose(%x, dim0 = 1, dim1 = 2) : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim0, Aten_ReqInt:$dim1);
  let rows = Aten_ExchangedRows;
  let hasFolder = 1;
}

def Aten_PermuteOp : Aten_ViewBaseOp<"permute", "aten::permute", "dimensions in another order"> {
  let description = [{
    Constraints:
    1. `dims` names each dimension of `self` once; a negative one counts from the back.
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

def Aten_UnsqueezeOp : Aten_ViewBaseOp<"unsqueeze", "aten::unsqueeze", "a new dimension of size 1"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of the result; a negative one counts from the back.
    2. The result has the shape of `self` with a 1 put in there, and the dtype of `self`.

    ```mlir
    %0 = aten.unsqueeze(%x, dim = -1) : (tensor<4x8xf32>) -> tensor<4x8x1xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim);
  let rows = Aten_OrderedRows;
}

def Aten_SqueezeOp : Aten_ViewBaseOp<"squeeze", "aten::squeeze", "all dimensions of size 1 dropped"> {
  let description = [{
    Constraints:
    1. The result has the shape of `self` without its ones, and the dtype of `self`.

    ```mlir
    %0 = aten.squeeze(%x) : (tensor<1x4x1xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let rows = Aten_OrderedRows;
  let hasFolder = 1;
}

def Aten_SqueezeDimOp : Aten_ViewBaseOp<"squeeze_dim", "aten::squeeze.dim", "a dimension dropped if its size is 1"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; a negative one counts from the back.
    2. The result has the shape of `self`, without `dim` where its size is 1, and the dtype of
       `self`.

    ```mlir
    %0 = aten.squeeze_dim(%x, dim = 1) : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim);
  let rows = Aten_OrderedRows;
  let hasFolder = 1;
}

def Aten_SqueezeDimsOp : Aten_ViewBaseOp<"squeeze_dims", "aten::squeeze.dims", "several dimensions dropped where their size is 1"> {
  let description = [{
    Constraints:
    1. `dim` names dimensions of `self`, none twice; a negative one counts from the back.
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
