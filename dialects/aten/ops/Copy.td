//===- Copy.td - copies: conversions, concatenations, triangles -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COPY
#define CLEAVE_DIALECTS_ATEN_OPS_COPY

include "dialects/aten/AtenBase.td"

//===----------------------------------------------------------------------===//
// Copies of one tensor
//===----------------------------------------------------------------------===//

def Aten_CloneOp : AtenOp<"clone", "aten::clone"> {
  let summary = "copy of `self`";
  let description = [{
    Constraints:
    1. `memory_format` is "contiguous_format", "preserve_format", "channels_last" or
       "channels_last_3d".
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.clone(%x, memory_format = "contiguous_format") : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_MemoryFormat:$memory_format);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let isCopy = 1;
  let sharding = Aten_PointwiseSharding;
  let moves = ["self"];
}

def Aten_LiftFreshCopyOp : AtenOp<"lift_fresh_copy", "aten::lift_fresh_copy"> {
  let summary = "copy of a constant captured by tracing";
  let description = [{
    Constraints:
    1. The result has the type of `self`.

    ```mlir
    %0 = aten.lift_fresh_copy(%x) : (tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let isCopy = 1;
  let sharding = Aten_PointwiseSharding;
  let moves = ["self"];
}

def Aten_ToCopyOp : AtenOp<"_to_copy", "aten::_to_copy"> {
  let summary = "copy, optionally converted to `dtype`";
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype, `memory_format` as for `aten.clone`.
    2. The result has the shape of `self`, and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten._to_copy(%x, dtype = bf16) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_DType:$dtype, Aten_Bool:$non_blocking,
                       Aten_MemoryFormat:$memory_format);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let isCopy = 1;
  let sharding = Aten_PointwiseSharding;
  let linear = ["self"];
}

def Aten_UnsafeViewOp : AtenOp<"_unsafe_view", "aten::_unsafe_view"> {
  let summary = "reshaped `self`, which must have no other use";
  let description = [{
    Like `aten.view`, except that PyTorch treats the result as a new tensor.

    Constraints:
    1. At most one element of `size` is -1; it is inferred from the others.
    2. The result has this shape, and the number of elements and the dtype of `self`.

    ```mlir
    %0 = aten._unsafe_view(%x, size = [8, -1]) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let isCopy = 1;
  let sharding = Aten_ReshapeSharding;
  let moves = ["self"];
  let resultSizes = ["size"];
}

def Aten_CopyOp : AtenOp<"copy", "aten::copy"> {
  let summary = "`src` converted to the shape and dtype of `self`";
  let description = [{
    Constraints:
    1. `src` broadcasts to the shape of `self`.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.copy(%x, %y) : (tensor<4x8xf32>, tensor<8xf64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$src, Aten_Bool:$non_blocking);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_Sharding<"rule.pointwise(); rule.shapeOnly(0);">;
  let linear = ["src"];
}

def Aten_FillTensorOp : AtenOp<"fill_tensor", "aten::fill.Tensor"> {
  let summary = "the value of a 0-d tensor in every element of the shape of `self`";
  let description = [{
    Constraints:
    1. `value` is 0-d.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.fill_tensor(%x, %y) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$value);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_Sharding<"rule.pointwise(); rule.shapeOnly(0);">;
  let linear = ["value"];
}

//===----------------------------------------------------------------------===//
// Several tensors into one
//===----------------------------------------------------------------------===//

def Aten_CatOp : AtenOp<"cat", "aten::cat"> {
  let summary = "concatenation along a dimension";
  let description = [{
    Empty 1-d tensors (`tensor<0xf32>`) are ignored, whatever the shape of the others.

    Constraints:
    1. There is at least one tensor, and none is 0-d.
    2. `dim` is a dimension of the tensors; negative values count from the end.
    3. The tensors have the same shape except in `dim`.
    4. The result has this shape, with the sum of the sizes in `dim`, and the dtype to which PyTorch
       promotes the tensors.

    ```mlir
    %0 = aten.cat([%a, %b], dim = 1) : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<4x10xf32>
    ```
  }];
  let arguments = (ins Aten_TensorList:$tensors, Aten_Int:$dim);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WindowRows;
  let moves = ["tensors"];
}

def Aten_StackOp : AtenOp<"stack", "aten::stack"> {
  let summary = "concatenation of tensors along a new dimension";
  let description = [{
    Constraints:
    1. There is at least one tensor; all have the same shape.
    2. `dim` is a dimension of the result; negative values count from the end.
    3. The size of the result in `dim` is the number of tensors; its dtype is the one to which PyTorch
       promotes them.

    ```mlir
    %0 = aten.stack([%a, %b]) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins Aten_TensorList:$tensors, Aten_Int:$dim);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["tensors"];
}

def Aten_RepeatOp : AtenOp<"repeat", "aten::repeat"> {
  let summary = "`self` repeated along each dimension";
  let description = [{
    Constraints:
    1. `repeats` has at least as many elements as `self` has dimensions; none is negative.
    2. Aligned at the last dimension, the result has the sizes of `self` (1 for new dimensions)
       times `repeats`, and the dtype of `self`.

    ```mlir
    %0 = aten.repeat(%x, repeats = [2, 1, 3]) : (tensor<4x8xf32>) -> tensor<2x4x24xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$repeats);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

//===----------------------------------------------------------------------===//
// Reordering
//===----------------------------------------------------------------------===//

class Aten_ReorderOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

def Aten_FlipOp : Aten_ReorderOp<"flip", "elements in reverse order along dimensions"> {
  let description = [{
    Constraints:
    1. `dims` lists distinct dimensions of `self`; negative values count from the end.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.flip(%x, dims = [0, -1]) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dims);
}

def Aten_RollOp : Aten_ReorderOp<"roll", "elements shifted along dimensions, wrapping around"> {
  let description = [{
    Without `dims`, elements are shifted in row-major order.

    Constraints:
    1. `dims` lists dimensions of `self`; negative values count from the end.
    2. `shifts` has one element for each of `dims`, or one if `dims` is empty.
    3. The result has the type of `self`.

    ```mlir
    %0 = aten.roll(%x, shifts = [1, -2], dims = [0, 1]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$shifts, Aten_Ints:$dims);
}

//===----------------------------------------------------------------------===//
// Triangles
//===----------------------------------------------------------------------===//

class Aten_TriangleOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let description = [{
    `diagonal` is counted upwards from the main diagonal.

    Constraints:
    1. `self` has at least two dimensions; the last two are those of the matrices.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, diagonal = -1) : (tensor<8x8xi1>) -> tensor<8x8xi1>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$diagonal);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["self"];
}
def Aten_TrilOp : Aten_TriangleOp<"tril", "matrices with zeros above a diagonal">;
def Aten_TriuOp : Aten_TriangleOp<"triu", "matrices with zeros below a diagonal">;

#endif // CLEAVE_DIALECTS_ATEN_OPS_COPY
