//===- Ordering.td - sorting, and the largest elements -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ORDERING
#define CLEAVE_DIALECTS_ATEN_OPS_ORDERING

include "dialects/aten/AtenBase.td"

def Aten_TopkOp : AtenOp<"topk", "aten::topk"> {
  let summary = "the `k` largest (or smallest) elements along a dimension, and their indices";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `k` is between 0 and the size of `dim`.
    3. `values` has the shape of `self` with size `k` in `dim`, and its dtype.
    4. `indices` has the same shape and dtype `i64`.

    ```mlir
    %0:2 = aten.topk(%x, k = 2) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$k, Aten_Int:$dim, Aten_Bool:$largest,
                       Aten_Bool:$sorted);
  let results = (outs Aten_Tensor:$values, Aten_Tensor:$indices);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_SortOp : AtenOp<"sort", "aten::sort"> {
  let summary = "the elements along a dimension in order, and their indices";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `values` has the type of `self`.
    3. `indices` has the same shape and dtype `i64`.

    ```mlir
    %0:2 = aten.sort(%x, descending = true) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$dim, Aten_Bool:$descending);
  let results = (outs Aten_Tensor:$values, Aten_Tensor:$indices);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_MaxDimOp : AtenOp<"max_dim", "aten::max.dim"> {
  let summary = "the largest element along a dimension, and its index";
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `values` has the shape of `self` without `dim` (with size 1 if `keepdim` is set), and its
       dtype.
    3. `indices` has the same shape and dtype `i64`.

    ```mlir
    %0:2 = aten.max_dim(%x, dim = 1) : (tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Bool:$keepdim);
  let results = (outs Aten_Tensor:$values, Aten_Tensor:$indices);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_ORDERING
