//===- Creation.td - tensors created from scalars and sizes -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CREATION
#define CLEAVE_DIALECTS_ATEN_OPS_CREATION

include "dialects/aten/AtenBase.td"

// All elements of the results are equal: each dimension may be sharded on its own.
def Aten_FactorySharding
    : Aten_Sharding<"rule.pointwise(); rule.kind(::cleave::sharding::OpKind::Factory);">;
class Aten_WholeFactorySharding<string reason>
    : Aten_Sharding<"rule.closeWhole(\"" # reason # "\"); rule.kind(::cleave::sharding::OpKind::Factory);">;
// Only the operand's shape is used.
def Aten_LikeSharding : Aten_Sharding<Aten_FactorySharding.statements # " rule.shapeOnly(0);">;
// Only the operand's dtype is used.
def Aten_NewSharding
    : Aten_Sharding<"rule.unrelated(); rule.kind(::cleave::sharding::OpKind::Factory); rule.shapeOnly(0);">;

class Aten_CreationOp<string mnemonic, string schema, string meaning> : AtenOp<mnemonic, schema> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// From sizes
//===----------------------------------------------------------------------===//

class Aten_SizedOp<string mnemonic, string meaning>
    : Aten_CreationOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype.
    2. The result has shape `size`, and dtype `dtype` (default: `f32`).

    ```mlir
    %0 = aten.}] # mnemonic # [{(size = [4, 8], dtype = i64) : () -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Aten_ReqInts:$size, Aten_DType:$dtype);
  let sharding = Aten_FactorySharding;
  let resultSizes = ["size"];
}
def Aten_ZerosOp : Aten_SizedOp<"zeros", "tensor of zeros">;
def Aten_OnesOp : Aten_SizedOp<"ones", "tensor of ones">;

def Aten_EmptyMemoryFormatOp : Aten_CreationOp<"empty_memory_format", "aten::empty.memory_format", "uninitialized tensor"> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype, `memory_format` as for `aten.clone`.
    2. The result has shape `size`, and dtype `dtype` (default: `f32`).

    ```mlir
    %0 = aten.empty_memory_format(size = [4, 8], dtype = i64) : () -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Aten_ReqInts:$size, Aten_DType:$dtype, Aten_MemoryFormat:$memory_format);
  let sharding = Aten_FactorySharding;
  let resultSizes = ["size"];
}

def Aten_FullOp : Aten_CreationOp<"full", "aten::full", "tensor filled with a scalar"> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype.
    2. The result has shape `size`, and dtype `dtype` (default: that of the scalar, `f32`, `i64` or
       `i1`).

    ```mlir
    %0 = aten.full(size = [4, 8], fill_value = 0xFFF0000000000000 : f64) : () -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_ReqInts:$size, Aten_ReqScalar:$fill_value, Aten_DType:$dtype);
  let sharding = Aten_FactorySharding;
  let resultSizes = ["size"];
}

def Aten_ScalarTensorOp : Aten_CreationOp<"scalar_tensor", "aten::scalar_tensor", "scalar converted to a 0-d tensor"> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype.
    2. The result has no dimensions, and dtype `dtype` (default: `f32`).

    ```mlir
    %0 = aten.scalar_tensor(s = 160, dtype = i64) : () -> tensor<i64>
    ```
  }];
  let arguments = (ins Aten_ReqScalar:$s, Aten_DType:$dtype);
  let sharding = Aten_FactorySharding;
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

class Aten_ArangeBaseOp<string mnemonic, string schema, string start, string example, string meaning>
    : Aten_CreationOp<mnemonic, schema, meaning> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype.
    2. The scalars are finite, and a nonzero `step` leads from the start to `end` in fewer than 2^31
       steps.
    3. The result has one dimension, of size `ceil((end - }] # start # [{) / step)`, and dtype `dtype` (default: `i64` if
       all scalars are integers, else `f32`).

    ```mlir
    %0 = aten.}] # mnemonic # "(" # example # [{) : () -> tensor<8xi64>
    ```
  }];
  let sharding = Aten_WholeFactorySharding<"the value of an element depends on its position">;
}
def Aten_ArangeOp : Aten_ArangeBaseOp<"arange", "aten::arange", "0", "end = 8", "0, 1, ... up to `end`, exclusive"> {
  let arguments = (ins Aten_ReqScalar:$end, Aten_DType:$dtype);
}
def Aten_ArangeStartOp : Aten_ArangeBaseOp<"arange_start", "aten::arange.start", "start",
    "start = 2, end = 10", "`start`, `start + 1`, ... up to `end`, exclusive"> {
  let arguments = (ins Aten_ReqScalar:$start, Aten_ReqScalar:$end, Aten_DType:$dtype);
}
def Aten_ArangeStartStepOp : Aten_ArangeBaseOp<"arange_start_step", "aten::arange.start_step", "start",
    "start = 15, end = 0, step = -2", "`start`, `start + step`, ... up to `end`, exclusive"> {
  let arguments = (ins Aten_ReqScalar:$start, Aten_ReqScalar:$end, Aten_Scalar:$step, Aten_DType:$dtype);
}

//===----------------------------------------------------------------------===//
// Like another tensor
//===----------------------------------------------------------------------===//

class Aten_LikeOp<string mnemonic, string extra, string meaning>
    : Aten_CreationOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    Strides follow those of `self` unless `memory_format` is given.

    Constraints:
    1. `dtype` is a PyTorch dtype, `memory_format` as for `aten.clone`.
    2. The result has the shape of `self`, and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten.}] # mnemonic # "(%x" # extra # [{, dtype = f64) : (tensor<4x8xf32>) -> tensor<4x8xf64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_DType:$dtype, Aten_MemoryFormat:$memory_format);
  let sharding = Aten_LikeSharding;
}
def Aten_ZerosLikeOp : Aten_LikeOp<"zeros_like", "", "zeros with the shape of `self`">;
def Aten_OnesLikeOp : Aten_LikeOp<"ones_like", "", "ones with the shape of `self`">;
def Aten_EmptyLikeOp : Aten_LikeOp<"empty_like", "", "uninitialized tensor with the shape of `self`">;
def Aten_FullLikeOp : Aten_LikeOp<"full_like", ", fill_value = 0.5", "scalar in every element of the shape of `self`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$fill_value, Aten_DType:$dtype,
                       Aten_MemoryFormat:$memory_format);
}

def Aten_ZeroOp : Aten_CreationOp<"zero", "aten::zero", "zeros with the type of `self`"> {
  let description = [{
    Constraints:
    1. The result has the type of `self`.

    ```mlir
    %0 = aten.zero(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let sharding = Aten_LikeSharding;
}

def Aten_FillScalarOp : Aten_CreationOp<"fill_scalar", "aten::fill.Scalar", "scalar in every element of the type of `self`"> {
  let description = [{
    Constraints:
    1. The result has the type of `self`.

    ```mlir
    %0 = aten.fill_scalar(%x, value = 0.5) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$value);
  let sharding = Aten_LikeSharding;
}

def Aten_NewEmptyStridedOp : Aten_CreationOp<"new_empty_strided", "aten::new_empty_strided", "uninitialized tensor with given strides and the dtype of `self`"> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype; `stride` has one element, at least 0, for each of `size`.
    2. The result has shape `size`, and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten.new_empty_strided(%x, size = [2, 4], stride = [1, 2]) : (tensor<4x8xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size, Aten_ReqInts:$stride, Aten_DType:$dtype);
  let sharding = Aten_CustomSharding;
}

class Aten_NewOp<string mnemonic, string extra, string meaning>
    : Aten_CreationOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    Constraints:
    1. `dtype` is a PyTorch dtype.
    2. The result has shape `size`, and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten.}] # mnemonic # "(%x, size = [2]" # extra # [{) : (tensor<4x8xf32>) -> tensor<2xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size, Aten_DType:$dtype);
  let sharding = Aten_NewSharding;
  let resultSizes = ["size"];
}
def Aten_NewZerosOp : Aten_NewOp<"new_zeros", "", "zeros with the dtype of `self`">;
def Aten_NewOnesOp : Aten_NewOp<"new_ones", "", "ones with the dtype of `self`">;
def Aten_NewFullOp : Aten_NewOp<"new_full", ", fill_value = 0.5", "tensor filled with a scalar, with the dtype of `self`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$size, Aten_ReqScalar:$fill_value, Aten_DType:$dtype);
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CREATION
