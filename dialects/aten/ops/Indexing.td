//===- Indexing.td - reading and writing elements selected by index tensors -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_INDEXING
#define CLEAVE_DIALECTS_ATEN_OPS_INDEXING

include "dialects/aten/AtenBase.td"

class Aten_IndexingOp<string mnemonic, string schema, string meaning> : AtenOp<mnemonic, schema> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let mixes = 1;
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

def Aten_EmbeddingOp : Aten_IndexingOp<"embedding", "aten::embedding", "rows of a table, selected by index"> {
  let description = [{
    The row `padding_idx` gets no gradient; the forward result does not depend on it.

    Constraints:
    1. `weight` is V x E.
    2. `indices` has dtype `i64` or `i32`.
    3. The result has the shape of `indices` with E appended, and the dtype of `weight`.

    ```mlir
    %0 = aten.embedding(%w, %i) : (tensor<256x32xf32>, tensor<2x16xi64>) -> tensor<2x16x32xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$weight, Aten_Tensor:$indices, Aten_Int:$padding_idx,
                       Aten_Bool:$scale_grad_by_freq, Aten_Bool:$sparse);
  let sharding = Aten_ShardingText<"ve, * -> *e", ["v: an index may name any row"]>;
  let table = "getWeight()";
  let lookUp = "{getIndices(), getWeight(), 0, std::nullopt}";
  let moves = ["weight"];
}

def Aten_EmbeddingDenseBackwardOp
    : Aten_IndexingOp<"embedding_dense_backward", "aten::embedding_dense_backward", "gradient of `embedding`"> {
  let description = [{
    Constraints:
    1. `indices` has dtype `i64` or `i32`.
    2. `grad_output` has the shape of `indices` with E appended.
    3. The result is `num_weights` x E, with the dtype of `grad_output`.

    ```mlir
    %0 = aten.embedding_dense_backward(%g, %i, num_weights = 256, padding_idx = -1,
                                       scale_grad_by_freq = false)
        : (tensor<2x16x32xf32>, tensor<2x16xi64>) -> tensor<256x32xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$indices, Aten_ReqInt:$num_weights,
                       Aten_ReqInt:$padding_idx, Aten_ReqBool:$scale_grad_by_freq);
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

//===----------------------------------------------------------------------===//
// Several dimensions at once
//===----------------------------------------------------------------------===//

class Aten_IndexReadOp<string mnemonic, string schema, string meaning> : Aten_IndexingOp<mnemonic, schema, meaning> {
  let description = [{
    `none` selects a whole dimension. The other indices broadcast to one shape, which takes the place of
    the indexed dimensions in the result if these are adjacent, and comes first otherwise.

    Constraints:
    1. There is at least one index, and at most one per dimension of `self`.
    2. Indices have dtype `i64` or `i32`. Masks are rejected: the number of elements they select depends
       on data.
    3. The shapes of the indices broadcast.
    4. The result has the resulting shape, and the dtype of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, [%i, none, %j])
        : (tensor<4x8x6xf32>, tensor<3x1xi64>, tensor<5xi64>) -> tensor<3x5x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_TensorList:$indices, Aten_Bools:$indices_present);
  let sharding = Aten_CustomSharding;
  let moves = ["self"];
}
def Aten_IndexOp : Aten_IndexReadOp<"index", "aten::index.Tensor", "`self[indices]`, with an index for each leading dimension">;
def Aten_UnsafeIndexOp : Aten_IndexReadOp<"_unsafe_index", "aten::_unsafe_index.Tensor", "`index` without bounds checks">;

class Aten_IndexWriteOp<string mnemonic, string meaning> : Aten_IndexingOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    With `accumulate`, values written to the same element are summed.

    Constraints:
    1. There is at least one index, and at most one per dimension of `self`.
    2. Indices have dtype `i64` or `i32`, or are masks of dtype `i1` or `ui8`.
    3. The shapes of the indices broadcast.
    4. `values` has the dtype of `self` and, if no index is a mask, broadcasts to the shape of
       `self[indices]`.
    5. The result has the type of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, [%i], %v, accumulate = true)
        : (tensor<4x8xf32>, tensor<3xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_TensorList:$indices, Aten_Bools:$indices_present,
                       Aten_Tensor:$values, Aten_Bool:$accumulate);
  let sharding = Aten_CustomSharding;
  let linear = ["self, values"];
}
def Aten_IndexPutOp : Aten_IndexWriteOp<"index_put", "`self` with `values` written, or added, to `self[indices]`">;
def Aten_UnsafeIndexPutOp : Aten_IndexWriteOp<"_unsafe_index_put", "`index_put` without bounds checks">;

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

def Aten_IndexSelectOp : Aten_IndexingOp<"index_select", "aten::index_select", "slices along a dimension, selected by index"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `index` has at most one dimension, one element where `self` has none, and dtype `i64` or `i32`.
    3. The result has the shape of `self` except that the size of `dim` is the number of indices, and
       its dtype.

    ```mlir
    %0 = aten.index_select(%x, dim = 0, %i) : (tensor<4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Tensor:$index);
  let sharding = Aten_CustomSharding;
  let table = "getSelf()";
  let moves = ["self"];
}

def Aten_IndexAddOp : Aten_IndexingOp<"index_add", "aten::index_add", "`self` with slices of `alpha * source` added at `index`"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `index` has at most one dimension, one element where `self` has none, and dtype `i64` or `i32`.
    3. `source` has the shape of `self` except that the size of `dim` is the number of indices, and its
       dtype.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten.index_add(%x, dim = 0, %i, %s)
        : (tensor<4x8xf32>, tensor<6xi64>, tensor<6x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Tensor:$index, Aten_Tensor:$source,
                       Aten_Scalar:$alpha);
  let sharding = Aten_CustomSharding;
  let linear = ["self, source"];
}

def Aten_GatherOp : Aten_IndexingOp<"gather", "aten::gather", "for each element of `index`, the element of `self` at this position in `dim`"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `index` has dtype `i64` or `i32`, has as many dimensions as `self`, and is at most as large as
       `self` in every dimension but `dim`.
    3. The result has the shape of `index` and the dtype of `self`.

    ```mlir
    %0 = aten.gather(%x, dim = 1, %i) : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Tensor:$index, Aten_Bool:$sparse_grad);
  let sharding = Aten_CustomSharding;
  let table = "getSelf()";
  let moves = ["self"];
}

class Aten_ScatterOp<string mnemonic, string schema, string meaning>
    : Aten_IndexingOp<mnemonic, schema, meaning> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `index` has dtype `i64` or `i32`, has as many dimensions as `self`, and is at most as large as
       `self` in every dimension but `dim`.
    3. `src` has the dtype of `self`, as many dimensions as `index`, and is at least as large in each.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, dim = 1, %i, %s)
        : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Tensor:$index, Aten_Tensor:$src);
  let sharding = Aten_CustomSharding;
}
def Aten_ScatterSrcOp : Aten_ScatterOp<"scatter_src", "aten::scatter.src", "`self` with the elements of `src` written to positions in `dim` given by `index`"> {
  let moves = ["self, src"];
}
def Aten_ScatterAddOp : Aten_ScatterOp<"scatter_add", "aten::scatter_add", "`self` with the elements of `src` added at positions in `dim` given by `index`"> {
  let linear = ["self, src"];
}

def Aten_ScatterValueOp : Aten_IndexingOp<"scatter_value", "aten::scatter.value", "`self` with a scalar written to positions in `dim` given by `index`"> {
  let description = [{
    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. `index` has dtype `i64` or `i32`, has as many dimensions as `self`, and is at most as large as
       `self` in every dimension but `dim`.
    3. The result has the type of `self`.

    ```mlir
    %0 = aten.scatter_value(%x, dim = 1, %i, value = 1.0)
        : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_Tensor:$index, Aten_ReqScalar:$value);
  let sharding = Aten_CustomSharding;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_INDEXING
