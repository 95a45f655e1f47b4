//===- Complex.td - complex numbers and Fourier transforms -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COMPLEX
#define CLEAVE_DIALECTS_ATEN_OPS_COMPLEX

include "dialects/aten/ops/PointwiseBase.td"

//===----------------------------------------------------------------------===//
// Complex numbers as pairs of reals
//===----------------------------------------------------------------------===//

class Aten_PairOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let isView = 1;
  let summary = meaning;
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["self"];
}

def Aten_ViewAsComplexOp : Aten_PairOp<"view_as_complex", "pairs of reals along the last dimension, as complex numbers"> {
  let description = [{
    The inverse of `aten.view_as_real`, with which it folds.

    Constraints:
    1. `self` has dtype `f32` or `f64`, and size 2 in its last dimension.
    2. The result has the other dimensions, and the complex dtype with these parts.

    ```mlir
    %0 = aten.view_as_complex(%x) : (tensor<4x8x2xf32>) -> tensor<4x8xcomplex<f32>>
    ```
  }];
}

def Aten_ViewAsRealOp : Aten_PairOp<"view_as_real", "complex numbers as pairs of reals along a new last dimension"> {
  let description = [{
    Constraints:
    1. `self` is complex.
    2. The result has its dimensions and a last one of size 2, and the dtype of its parts.

    ```mlir
    %0 = aten.view_as_real(%z) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8x2xf32>
    ```
  }];
}

/// A complex number from two reals.
class Aten_FromPartsOp<string mnemonic, string first, string second, string meaning>
    : AtenOp<mnemonic, "aten::" # mnemonic, [Pointwise]> {
  let summary = meaning;
  let description = "Constraints:\n    1. `" # first # "` and `" # second # [{` have one dtype, `f32` or `f64`.
    2. Their shapes broadcast to that of the result, which has the complex dtype with these parts.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xcomplex<f32>>
    ```
  }];
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let rows = Aten_NoRows;
  let pointwiseOut = 1;
}
def Aten_ComplexOp : Aten_FromPartsOp<"complex", "real", "imag", "`real + i * imag`"> {
  let arguments = (ins Aten_Tensor:$real, Aten_Tensor:$imag);
  let linear = ["real, imag"];
}
def Aten_PolarOp : Aten_FromPartsOp<"polar", "abs", "angle", "`abs * (cos(angle) + i * sin(angle))`"> {
  // Linear in `abs`, but the derivative with respect to it divides the result by its absolute value.
  let arguments = (ins Aten_Tensor:$abs, Aten_Tensor:$angle);
}

def Aten_ConjPhysicalOp : AtenOp<"conj_physical", "aten::conj_physical", [Pointwise]> {
  let summary = "complex conjugate";
  let description = [{
    A copy: what PyTorch's `conj()` returns, a view with a mark that kernels resolve, does not exist in programs.
    Folds with another conjugate.

    Constraints:
    1. `self` is complex.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.conj_physical(%z) : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let hasFolder = 1;
  let sharding = Aten_PointwiseSharding;
  let rows = Aten_NoRows;
  let pointwiseOut = 1;
  let linear = ["self"];
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// `norm` says what results are divided by: 0 nothing, 1 the square root of the number n of transformed
/// elements, 2 n.
class Aten_FftOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["self"];
  let mixes = 1;
  let flops = "countFourierFlops(getSelf(), getResult(), getDim())";
}

def Aten_FftC2cOp : Aten_FftOp<"_fft_c2c", "Fourier transform of complex numbers"> {
  let description = [{
    `normalization` says what the sums are divided by: 0 nothing, 1 the square root of the number n of
    transformed elements, 2 n. Without `forward` it is the inverse transform but for the normalization.

    Constraints:
    1. `self` is complex.
    2. `dim` lists distinct dimensions of `self`, counted from the front.
    3. `normalization` is 0, 1 or 2.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten._fft_c2c(%z, dim = [1], normalization = 0, forward = true)
        : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dim, Aten_ReqInt:$normalization, Aten_ReqBool:$forward);
}

def Aten_FftR2cOp : Aten_FftOp<"_fft_r2c", "Fourier transform of real numbers"> {
  let description = [{
    `normalization` as for `aten._fft_c2c`. With `onesided`, the last of `dim` keeps the first half of
    its elements: the others are their conjugates.

    Constraints:
    1. `self` has dtype `f32` or `f64`.
    2. `dim` lists one or more distinct dimensions of `self`, counted from the front.
    3. `normalization` is 0, 1 or 2.
    4. The result has the sizes of `self`, n / 2 + 1 instead of n in the last of `dim` with `onesided`, and the
       complex dtype with these parts.

    ```mlir
    %0 = aten._fft_r2c(%x, dim = [1], normalization = 0, onesided = true)
        : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dim, Aten_ReqInt:$normalization, Aten_ReqBool:$onesided);
}

def Aten_FftC2rOp : Aten_FftOp<"_fft_c2r", "inverse Fourier transform to real numbers"> {
  let description = [{
    The inverse of `aten._fft_r2c` with `onesided` but for the normalization, which is as for `aten._fft_c2c`.

    Constraints:
    1. `self` is complex.
    2. `dim` lists one or more distinct dimensions of `self`, counted from the front.
    3. `normalization` is 0, 1 or 2.
    4. `last_dim_size` is at least 1, and the last of `dim` has size `last_dim_size / 2 + 1`.
    5. The result has the sizes of `self`, but `last_dim_size` in the last of `dim`, and the dtype of its parts.

    ```mlir
    %0 = aten._fft_c2r(%z, dim = [1], normalization = 2, last_dim_size = 8)
        : (tensor<4x5xcomplex<f32>>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$dim, Aten_ReqInt:$normalization, Aten_ReqInt:$last_dim_size);
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_COMPLEX
