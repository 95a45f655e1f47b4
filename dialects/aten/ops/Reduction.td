//===- Reduction.td - sums, means, extrema and norms -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_REDUCTION
#define CLEAVE_DIALECTS_ATEN_OPS_REDUCTION

include "dialects/aten/AtenBase.td"

class Aten_ReductionOp<string mnemonic, string schema, string meaning> : AtenOp<mnemonic, schema> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

class Aten_FullSumOp<string mnemonic, string dtypes, string meaning>
    : Aten_ReductionOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    Constraints:
    1. }] # dtypes # [{
    2. The result is 0-d and has this dtype.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x) : (tensor<4x8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_DType:$dtype);
  let linear = ["self"];
  let rows = Aten_ReducedRows;
}

class Aten_DimSumOp<string mnemonic, string schema, string dtypes, string meaning>
    : Aten_ReductionOp<mnemonic, schema, meaning> {
  let description = [{
    If `dim` is absent or empty, all dimensions are reduced.

    Constraints:
    1. }] # dtypes # [{
    2. `dim` lists distinct dimensions of `self`; negative values count from the end.
    3. The result has the shape of `self` without these dimensions (with size 1 if `keepdim` is set) and
       this dtype.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, dim = [-1], keepdim = true) : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Ints:$dim, Aten_Bool:$keepdim, Aten_DType:$dtype);
  let linear = ["self"];
  let rows = Aten_ReducedRows;
}

defvar sumTypes = "The dtype is `dtype`; by default that of `self`, or `i64` if `self` holds integers or bool.";
defvar meanTypes = "The dtype is `dtype`, by default that of `self`; it is floating-point.";
def Aten_SumOp : Aten_FullSumOp<"sum", sumTypes, "sum of all elements">;
def Aten_SumDimIntListOp : Aten_DimSumOp<"sum_dim_int_list", "aten::sum.dim_IntList", sumTypes, "sum over dimensions">;
def Aten_MeanOp : Aten_FullSumOp<"mean", meanTypes, "mean of all elements">;
def Aten_MeanDimOp : Aten_DimSumOp<"mean_dim", "aten::mean.dim", meanTypes, "mean over dimensions">;

def Aten_CumsumOp : Aten_ReductionOp<"cumsum", "aten::cumsum", "running sum along a dimension"> {
  let description = [{
    Constraints:
    1. The dtype is `dtype`; by default that of `self`, or `i64` if `self` holds integers or bool.
    2. `dim` is a dimension of `self`; negative values count from the end.
    3. The result has the shape of `self` and this dtype.

    ```mlir
    %0 = aten.cumsum(%x, dim = 1) : (tensor<4x8xi1>) -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInt:$dim, Aten_DType:$dtype);
  let linear = ["self"];
  let mixes = 1;
}

//===----------------------------------------------------------------------===//
// Variance and norms
//===----------------------------------------------------------------------===//

def Aten_VarCorrectionOp : Aten_ReductionOp<"var_correction", "aten::var.correction", "variance over dimensions"> {
  let description = [{
    The sum of squared deviations from the mean, divided by the number of elements minus `correction`
    (default: 1). If `dim` is absent or empty, all dimensions are reduced.

    Constraints:
    1. `self` has a floating-point dtype.
    2. `dim` lists distinct dimensions of `self`; negative values count from the end.
    3. The result has the shape of `self` without these dimensions (with size 1 if `keepdim` is set) and
       the dtype of `self`.

    ```mlir
    %0 = aten.var_correction(%x, dim = [1], correction = 0) : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Ints:$dim, Aten_Scalar:$correction, Aten_Bool:$keepdim);
}

def Aten_LinalgVectorNormOp
    : Aten_ReductionOp<"linalg_vector_norm", "aten::linalg_vector_norm", "norm of order `ord` over dimensions"> {
  let description = [{
    If `dim` is absent or empty, all dimensions are reduced.

    Constraints:
    1. `self` and, if given, `dtype` are floating-point.
    2. `dim` lists distinct dimensions of `self`; negative values count from the end.
    3. The result has the shape of `self` without these dimensions (with size 1 if `keepdim` is set),
       and dtype `dtype` (default: that of `self`).

    ```mlir
    %0 = aten.linalg_vector_norm(%x, ord = 2.0, dim = [-1], keepdim = true)
        : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$ord, Aten_Ints:$dim, Aten_Bool:$keepdim,
                       Aten_DType:$dtype);
}

def Aten_LogsumexpOp : Aten_ReductionOp<"logsumexp", "aten::logsumexp", "logarithm of the sum of exponentials over dimensions"> {
  let description = [{
    If `dim` is empty, all dimensions are reduced.

    Constraints:
    1. The dtype is that of `self`, or `f32` if `self` holds integers or bool.
    2. `dim` lists distinct dimensions of `self`; negative values count from the end.
    3. The result has the shape of `self` without these dimensions (with size 1 if `keepdim` is set) and
       this dtype.

    ```mlir
    %0 = aten.logsumexp(%x, dim = [-1]) : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dim, Aten_Bool:$keepdim);
}

//===----------------------------------------------------------------------===//
// Extrema and logic
//===----------------------------------------------------------------------===//

class Aten_ExtremumOp<string mnemonic, string meaning>
    : Aten_ReductionOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    If `dim` is absent or empty, all dimensions are reduced.

    Constraints:
    1. `dim` lists distinct dimensions of `self`; negative values count from the end.
    2. The result has the shape of `self` without these dimensions (with size 1 if `keepdim` is set) and
       the dtype of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, dim = [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Ints:$dim, Aten_Bool:$keepdim);
}
def Aten_AmaxOp : Aten_ExtremumOp<"amax", "largest element over dimensions"> {
  let rows = Aten_ReducedRows;
}
def Aten_AminOp : Aten_ExtremumOp<"amin", "smallest element over dimensions">;

class Aten_TruthOp<string mnemonic, string meaning>
    : Aten_ReductionOp<mnemonic, "aten::" # mnemonic, meaning> {
  let description = [{
    Constraints:
    1. The result is 0-d, of dtype `i1`, or `ui8` if that is the dtype of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x) : (tensor<4x8xi1>) -> tensor<i1>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
}
def Aten_AnyOp : Aten_TruthOp<"any", "whether any element is nonzero">;
def Aten_AllOp : Aten_TruthOp<"all", "whether all elements are nonzero">;

def Aten_ArgmaxOp : Aten_ReductionOp<"argmax", "aten::argmax", "index of the largest element"> {
  let description = [{
    Without `dim`, the index is that in row-major order.

    Constraints:
    1. `dim` is a dimension of `self`; negative values count from the end.
    2. The result has the shape of `self` without `dim` (with size 1 if `keepdim` is set), or that of a
       full reduction if `dim` is absent, and dtype `i64`.

    ```mlir
    %0 = aten.argmax(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4xi64>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$dim, Aten_Bool:$keepdim);
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_REDUCTION
