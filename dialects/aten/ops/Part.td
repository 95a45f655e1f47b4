//===- Part.td - parts of a tensor: slices, selections and splits, and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_PART
#define CLEAVE_DIALECTS_ATEN_OPS_PART

include "dialects/aten/AtenBase.td"

//===----------------------------------------------------------------------===//
// Views of one part
//===----------------------------------------------------------------------===//

def Aten_SliceOp : AtenOp<"slice", "aten::slice.Tensor"> {
  let isView = 1;
  let summary = "`self[..., start:end:step, ...]`";
  let description = [{
    `start` and `end` are clamped to the dimension; negative values count from its end.

    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `step` is at least 1.
    3. The result has the shape of `self` with the size of the slice in `dim`, and the dtype of `self`.

    ```mlir
    %0 = aten.slice(%x, dim = 1, start = 2, end = -1) : (tensor<4x8xf32>) -> tensor<4x5xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$dim, Aten_Int:$start, Aten_Int:$end, Aten_Int:$step);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WindowViewRows;
  let moves = ["self"];
}

def Aten_SelectOp : AtenOp<"select", "aten::select.int"> {
  let isView = 1;
  let summary = "`self[..., index, ...]`";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `index` lies within the dimension; negative values count from its end.
    3. The result has the shape of `self` without `dim`, and the dtype of `self`.

    ```mlir
    %0 = aten.select(%x, dim = 1, index = 0) : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_ReqInt:$index);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

//===----------------------------------------------------------------------===//
// Views of all parts
//===----------------------------------------------------------------------===//

def Aten_SplitOp : AtenOp<"split", "aten::split.Tensor"> {
  let isView = 1;
  let summary = "parts of size `split_size` along a dimension; the last may be smaller";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `split_size` is at least 1, or 0 if the dimension has size 0.
    3. There is one result per part, with the shape of `self` except for the part's size in `dim`, and
       the dtype of `self`.

    ```mlir
    %0:3 = aten.split(%x, split_size = 3, dim = 1)
        : (tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x2xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$split_size, Aten_Int:$dim);
  let results = (outs Variadic<Aten_Tensor>:$parts);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

def Aten_SplitWithSizesOp : AtenOp<"split_with_sizes", "aten::split_with_sizes"> {
  let isView = 1;
  let summary = "parts of given sizes along a dimension";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `split_sizes` are not negative and add up to the size of the dimension.
    3. There is one result per size, with the shape of `self` except for this size in `dim`, and the
       dtype of `self`.

    ```mlir
    %0:2 = aten.split_with_sizes(%x, split_sizes = [6, 2], dim = -1)
        : (tensor<4x8xf32>) -> (tensor<4x6xf32>, tensor<4x2xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$split_sizes, Aten_Int:$dim);
  let results = (outs Variadic<Aten_Tensor>:$parts);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

def Aten_UnbindOp : AtenOp<"unbind", "aten::unbind.int"> {
  let isView = 1;
  let summary = "all slices along a dimension, without that dimension";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. There is one result per element of the dimension, with the shape of `self` without it,
       and the dtype of `self`.

    ```mlir
    %0:2 = aten.unbind(%x) : (tensor<2x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$dim);
  let results = (outs Variadic<Aten_Tensor>:$parts);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

def Aten_SliceBackwardOp : AtenOp<"slice_backward", "aten::slice_backward"> {
  let summary = "gradient of `slice`: zeros with `grad_output` written to the slice";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `input_sizes`; negative values count from the end.
    2. `step` is at least 1.
    3. `grad_output` has the shape of a `slice` of `input_sizes`.
    4. The result has shape `input_sizes` and the dtype of `grad_output`.

    ```mlir
    %0 = aten.slice_backward(%g, input_sizes = [4, 8], dim = 1, start = 2, end = 7, step = 1)
        : (tensor<4x5xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_ReqInts:$input_sizes, Aten_ReqInt:$dim,
                       Aten_ReqInt:$start, Aten_ReqInt:$end, Aten_ReqInt:$step);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WindowRows;
  let linear = ["grad_output"];
  let resultSizes = ["input_sizes"];
}

def Aten_SelectBackwardOp : AtenOp<"select_backward", "aten::select_backward"> {
  let summary = "gradient of `select`: zeros with `grad_output` written to the selection";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `input_sizes`; negative values count from the end.
    2. `index` lies within the dimension; negative values count from its end.
    3. `grad_output` has shape `input_sizes` without `dim`.
    4. The result has shape `input_sizes` and the dtype of `grad_output`.

    ```mlir
    %0 = aten.select_backward(%g, input_sizes = [4, 8], dim = 1, index = 0)
        : (tensor<4xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_ReqInts:$input_sizes, Aten_ReqInt:$dim,
                       Aten_ReqInt:$index);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
  let resultSizes = ["input_sizes"];
}

//===----------------------------------------------------------------------===//
// Writing to a part
//===----------------------------------------------------------------------===//

def Aten_SliceScatterOp : AtenOp<"slice_scatter", "aten::slice_scatter"> {
  let summary = "`self` with `src` written to `self[..., start:end:step, ...]`";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `step` is at least 1.
    3. `src` has the shape of a `slice` of `self`.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten.slice_scatter(%x, %y, dim = 1, start = 2, end = -1)
        : (tensor<4x8xf32>, tensor<4x5xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$src, Aten_Int:$dim, Aten_Int:$start, Aten_Int:$end,
                       Aten_Int:$step);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self, src"];
}

def Aten_SelectScatterOp : AtenOp<"select_scatter", "aten::select_scatter"> {
  let summary = "`self` with `src` written to `self[..., index, ...]`";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`, which has at least one; negative values count from the end.
    2. `index` lies within the dimension; negative values count from its end.
    3. `src` has the shape of `self` without `dim`.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten.select_scatter(%x, %y, dim = 1, index = 0)
        : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$src, Aten_ReqInt:$dim, Aten_ReqInt:$index);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let moves = ["self, src"];
}

def Aten_ConstantPadNdOp : AtenOp<"constant_pad_nd", "aten::constant_pad_nd"> {
  let summary = "`self` padded with a scalar, or cropped, at the ends of dimensions";
  let description = [{
    `pad` has two numbers for each dimension, starting with the last one: how many elements to add
    before and after. Negative numbers crop.

    Constraints:
    1. `pad` has an even number of elements, at most two for each dimension of `self`.
    2. No size of the result is negative.
    3. The result has these sizes, and the dtype of `self`.

    ```mlir
    %0 = aten.constant_pad_nd(%x, pad = [1, 2, 0, -1], value = 0.0) : (tensor<4x8xf32>) -> tensor<3x11xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$pad, Aten_Scalar:$value);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_PART
