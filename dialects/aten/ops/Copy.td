//===- Copy.td - copies: conversions, concatenations, triangles -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COPY
#define CLEAVE_DIALECTS_ATEN_OPS_COPY

include "dialects/aten/AtenBase.td"

//===----------------------------------------------------------------------===//
// Copies of one tensor
//===----------------------------------------------------------------------===//

def Aten_CloneOp : AtenOp<"clone", "aten::clone"> {
  let summary = "copy with strides of its own";
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
  let summary = "copy of a constant that the trace captured";
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
  let summary = "copy, converted to `dtype`";
  let description = [{
    Constraints:
    1. `dtype` is one that PyTorch has, `memory_format` as for `aten.clone`.
    2. The result has the shape of `self`, and `dtype` or, without it, the dtype of `self`.

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
  let summary = "`self` in another shape, with the promise that `self` is used nowhere else";
  let description = [{
    Like `aten.view`; but to PyTorch the result is a new tensor.

    Constraints:
    1. `size` has at most one -1, which stands for what the other sizes leave.
    2. The result has this shape, as many elements as `self` and its dtype.

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
  let summary = "`src` in the shape and dtype of `self`";
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
  let summary = "a number that a tensor holds everywhere in the shape of `self`";
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
  let summary = "tensors one after the other along a dimension";
  let description = [{
    Empty 1-d tensors (`tensor<0xf32>`) are passed over, whatever the shape of the others.

    Constraints:
    1. There is at least one tensor, and none is 0-d.
    2. `dim` is a dimension of the tensors; a negative one counts from the back.
    3. The tensors have one shape but for `dim`.
    4. The result has this shape, in `dim` the sum of the sizes, and the dtype to which PyTorch
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
  let summary = "tensors of one shape along a new dimension";
  let description = [{
    Constraints:
    1. There is at least one tensor; all have one shape.
    2. `dim` is a dimension of the result; a negative one counts from the back.
    3. The result has the number of tensors as size of `dim`, and the dtype to which PyTorch
       promotes the tensors.

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
  let summary = "tensor repeated along each dimension";
  let description = [{
    Constraints:
    1. `repeats` has at least as many elements as `self` has dimensions, none of them negative.
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
// Other orders
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
    1. `dims` names dimensions of `self`, none twice; a negative one counts from the back.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.flip(%x, dims = [0, -1]) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dims);
}

def Aten_RollOp : Aten_ReorderOp<"roll", "elements moved along dimensions, from the end to the front"> {
  let description = [{
    Without `dims` the elements are moved in row-major order.

    Constraints:
    1. `dims` names dimensions of `self`; a negative one counts from the back.
    2. `shifts` has one element for each of `dims`, or one where `dims` is empty.
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
    1. `self` has at least two dimensions; the last two are the matrices.
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
