//===- Arithmetic.td - sums, products, powers and elementary functions -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC
#define CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC

include "dialects/aten/ops/PointwiseBase.td"

//===----------------------------------------------------------------------===//
// Sums and products
//===----------------------------------------------------------------------===//

/// An op of `self` and `alpha * other`.
class Aten_AlphaOp<string mnemonic, string schema, string meaning>
    : Aten_BinaryOp<mnemonic, schema, Aten_Promoted, meaning> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$other, Aten_Scalar:$alpha);
}
class Aten_AlphaScalarOp<string mnemonic, string schema, string meaning>
    : Aten_ScalarOp<mnemonic, schema, Aten_Promoted, meaning> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$other, Aten_Scalar:$alpha);
  let pointwiseOut = 0;
}

def Aten_AddOp : Aten_AlphaOp<"add", "aten::add.Tensor", "`self + alpha * other`"> {
  let linear = ["self, other"];
}
def Aten_AddScalarOp : Aten_AlphaScalarOp<"add_scalar", "aten::add.Scalar", "`self + alpha * other` for a scalar `other`">;
def Aten_SubOp : Aten_AlphaOp<"sub", "aten::sub.Tensor", "`self - alpha * other`"> {
  let linear = ["self, other"];
}
def Aten_SubScalarOp : Aten_AlphaScalarOp<"sub_scalar", "aten::sub.Scalar", "`self - alpha * other` for a scalar `other`">;
def Aten_RsubScalarOp : Aten_AlphaScalarOp<"rsub_scalar", "aten::rsub.Scalar", "`other - alpha * self` for a scalar `other`">;
def Aten_MulOp : Aten_BinaryOp<"mul", "aten::mul.Tensor", Aten_Promoted, "product of two tensors"> {
  let linear = ["self", "other"];
}
def Aten_MulScalarOp : Aten_ScalarOp<"mul_scalar", "aten::mul.Scalar", Aten_Promoted, "product of a tensor and a scalar"> {
  let sharding = Aten_LinearWhere<"isFinite(getOther())">;
  let pointwiseOut = 0;
}
def Aten_DivOp : Aten_BinaryOp<"div", "aten::div.Tensor", Aten_Floating, "quotient of two tensors, without rounding"> {
  let linear = ["self"];
}
def Aten_DivScalarOp : Aten_ScalarOp<"div_scalar", "aten::div.Scalar", Aten_Floating, "quotient of a tensor and a scalar, without rounding"> {
  let sharding = Aten_LinearWhere<"isFinite(getOther()) && !isZero(getOther())">;
  let pointwiseOut = 0;
}

def Aten_AddcmulOp : Aten_PointwiseOp<"addcmul", "aten::addcmul", Aten_Promoted> {
  let summary = "`self + value * tensor1 * tensor2`";
  let description = [{
    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.addcmul(%x, %a, %b, value = 0.5)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$tensor1, Aten_Tensor:$tensor2, Aten_Scalar:$value);
  let linear = ["self, tensor1", "self, tensor2"];
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

def Aten_PowOp : Aten_BinaryOp<"pow", "aten::pow.Tensor_Tensor", Aten_Promoted, "`self` raised to a tensor `exponent`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$exponent);
}

def Aten_PowTensorScalarOp
    : Aten_PointwiseOp<"pow_tensor_scalar", "aten::pow.Tensor_Scalar", Aten_Promoted, ["exponent"]> {
  let summary = "`self` raised to a scalar `exponent`";
  let description = [{
    Constraints:
    1. The result has the shape of `self`.
    2. The result has the dtype to which PyTorch promotes `self` and `exponent`.

    ```mlir
    %0 = aten.pow_tensor_scalar(%x, exponent = 2) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$exponent);
}

def Aten_PowScalarOp : Aten_PointwiseOp<"pow_scalar", "aten::pow.Scalar", Aten_Promoted, ["self"]> {
  let summary = "a scalar raised to a tensor `exponent`";
  let description = [{
    Constraints:
    1. The result has the shape of `exponent`.
    2. The result has the dtype to which PyTorch promotes `self` and `exponent`.

    ```mlir
    %0 = aten.pow_scalar(self = 2, %x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_ReqScalar:$self, Aten_Tensor:$exponent);
}

def Aten_SqrtOp : Aten_UnaryOp<"sqrt", Aten_Floating, "square root">;
def Aten_RsqrtOp : Aten_UnaryOp<"rsqrt", Aten_Floating, "reciprocal of the square root">;
def Aten_ReciprocalOp : Aten_UnaryOp<"reciprocal", Aten_Floating, "`1 / self`">;

//===----------------------------------------------------------------------===//
// Elementary functions
//===----------------------------------------------------------------------===//

def Aten_NegOp : Aten_UnaryOp<"neg", Aten_Promoted, "`-self`"> {
  let linear = ["self"];
}
def Aten_AbsOp : Aten_UnaryOp<"abs", Aten_Real, "absolute value">;
def Aten_SgnOp : Aten_UnaryOp<"sgn", Aten_Promoted, "sign: -1, 0 or 1; of a complex number, it divided by its absolute value, or 0">;
def Aten_SignOp : Aten_UnaryOp<"sign", Aten_Promoted, "sign: -1, 0 or 1 (real numbers only)">;
def Aten_ExpOp : Aten_UnaryOp<"exp", Aten_Floating, "exponential">;
def Aten_LogOp : Aten_UnaryOp<"log", Aten_Floating, "natural logarithm">;
def Aten_Log1pOp : Aten_UnaryOp<"log1p", Aten_Floating, "`log(1 + self)`">;
def Aten_Expm1Op : Aten_UnaryOp<"expm1", Aten_Floating, "`exp(self) - 1`">;
def Aten_XlogyOp : Aten_BinaryOp<"xlogy", "aten::xlogy.Tensor", Aten_Floating, "`self * log(other)`, or 0 where `self` is 0"> {
  let linear = ["self"];
}
def Aten_SinOp : Aten_UnaryOp<"sin", Aten_Floating, "sine">;
def Aten_CosOp : Aten_UnaryOp<"cos", Aten_Floating, "cosine">;
def Aten_TanOp : Aten_UnaryOp<"tan", Aten_Floating, "tangent">;
def Aten_AsinOp : Aten_UnaryOp<"asin", Aten_Floating, "arcsine">;
def Aten_AcosOp : Aten_UnaryOp<"acos", Aten_Floating, "arccosine">;
def Aten_AtanOp : Aten_UnaryOp<"atan", Aten_Floating, "arctangent">;
def Aten_Log2Op : Aten_UnaryOp<"log2", Aten_Floating, "logarithm to base 2">;
def Aten_ErfOp : Aten_UnaryOp<"erf", Aten_Floating, "error function">;

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

def Aten_FloorOp : Aten_UnaryOp<"floor", Aten_LikeSelf, "largest integer not greater than `self`">;
def Aten_CeilOp : Aten_UnaryOp<"ceil", Aten_LikeSelf, "smallest integer not less than `self`">;
def Aten_RoundOp : Aten_UnaryOp<"round", Aten_LikeSelf, "nearest integer; ties go to the even one">;
def Aten_TruncOp : Aten_UnaryOp<"trunc", Aten_LikeSelf, "`self` rounded towards zero">;

def Aten_FloorDivideOp : Aten_BinaryOp<"floor_divide", "aten::floor_divide", Aten_Promoted, "quotient of two tensors, rounded down">;
def Aten_FloorDivideScalarOp
    : Aten_ScalarOp<"floor_divide_scalar", "aten::floor_divide.Scalar", Aten_Promoted, "quotient of a tensor and a scalar, rounded down"> {
  let pointwiseOut = 0;
}
def Aten_RemainderOp
    : Aten_BinaryOp<"remainder", "aten::remainder.Tensor", Aten_Promoted, "what `self` exceeds a multiple of `other` by, with the sign of `other`">;
def Aten_RemainderScalarOp
    : Aten_ScalarOp<"remainder_scalar", "aten::remainder.Scalar", Aten_Promoted, "what `self` exceeds a multiple of a scalar by, with the scalar's sign">;

#endif // CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC
