//===- Grouping.td - what sends tokens to experts: counts, stable sorts, products by group -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_GROUPING
#define CLEAVE_DIALECTS_ATEN_OPS_GROUPING

include "dialects/aten/AtenBase.td"

def Aten_GroupedMmOp : AtenOp<"_grouped_mm", "aten::_grouped_mm", [AttrSizedOperandSegments]> {
  let summary = "a product of matrices for each group of rows or columns";
  let description = [{
    G groups, in one of four forms. `offs` gives the end of each group along the dimension that groups divide; a
    group begins where the one before it ends, the first at 0. So sizes of groups may depend on data.

    | `self` | `mat2` | result | groups divide |
    | --- | --- | --- | --- |
    | M x K | G x K x N | M x N | the rows of `self` |
    | M x K | K x N | G x M x N | the sum |
    | G x M x K | K x N | M x N | the columns of `mat2` |
    | G x M x K | G x K x N | G x M x N | nothing: a product of batches |

    Rows and columns of the result after the last group are undefined on a GPU, and 0 on a CPU.

    Constraints:
    1. `self` and `mat2` have two or three dimensions each, as in the table.
    2. Both have the same floating-point dtype.
    3. `offs` has G elements of dtype `i32`; the form without a division has none.
    4. There is no `bias`, which PyTorch does not support.
    5. The result has the shape in the table, and dtype `out_dtype` (default: that of `self`).

    ```mlir
    %0 = aten._grouped_mm(%x, %w, %ends, none)
        : (tensor<32x16xf32>, tensor<4x16x8xf32>, tensor<4xi32>) -> tensor<32x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mat2, Aten_OptTensor:$offs, Aten_OptTensor:$bias,
                       Aten_DType:$out_dtype);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let mixes = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["self", "mat2"];
  let flops = "countGroupedProductFlops(getSelf(), getMat2())";
}

def Aten_SortStableOp : AtenOp<"sort_stable", "aten::sort.stable"> {
  let summary = "the elements along a dimension in order, equal ones as they were, and their indices";
  let description = [{
    With `stable = false` equal elements may be in any order, as in `sort`.

    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `values` has the type of `self`.
    3. `indices` has the same shape and dtype `i64`.

    ```mlir
    %0:2 = aten.sort_stable(%x, stable = true) : (tensor<32xi64>) -> (tensor<32xi64>, tensor<32xi64>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Bool:$stable, Aten_Int:$dim, Aten_Bool:$descending);
  let results = (outs Aten_Tensor:$values, Aten_Tensor:$indices);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_HistcOp : AtenOp<"histc", "aten::histc"> {
  let summary = "how many elements are in each of `bins` equal parts of an interval";
  let description = [{
    The interval is [`min`, `max`], or that of the elements if both are equal. Elements outside are not counted.

    Constraints:
    1. `bins` is positive.
    2. `min` is at most `max`, and both are finite.
    3. The result has `bins` elements of the dtype of `self`.

    ```mlir
    %0 = aten.histc(%x, bins = 4, min = 0, max = 4) : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$bins, Aten_Scalar:$min, Aten_Scalar:$max);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let mixes = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_BincountOp : AtenOp<"bincount", "aten::bincount"> {
  let summary = "how often each number below `minlength` occurs, or the sum of its `weights`";
  let description = [{
    PyTorch's result is longer where a number is not below `minlength`; here its size is static, and such a number
    is an error when the program runs.

    Constraints:
    1. `self` has one dimension and an integer dtype.
    2. `weights`, if there are any, have the shape of `self`.
    3. `minlength` is positive.
    4. The result has `minlength` elements, of dtype `i64`; with weights `f32` if that is their dtype, else `f64`.

    ```mlir
    %0 = aten.bincount(%i, none, minlength = 4) : (tensor<32xi64>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_OptTensor:$weights, Aten_Int:$minlength);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let mixes = 1;
  let sharding = Aten_CustomSharding;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_GROUPING
