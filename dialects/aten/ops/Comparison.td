//===- Comparison.td - comparisons, logic and selection -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COMPARISON
#define CLEAVE_DIALECTS_ATEN_OPS_COMPARISON

include "dialects/aten/ops/PointwiseBase.td"

def Aten_EqOp : Aten_BinaryOp<"eq", "aten::eq.Tensor", Aten_Boolean, "`self == other`">;
def Aten_EqScalarOp : Aten_ScalarOp<"eq_scalar", "aten::eq.Scalar", Aten_Boolean, "`self == other` for a scalar `other`">;
def Aten_NeOp : Aten_BinaryOp<"ne", "aten::ne.Tensor", Aten_Boolean, "`self != other`">;
def Aten_NeScalarOp : Aten_ScalarOp<"ne_scalar", "aten::ne.Scalar", Aten_Boolean, "`self != other` for a scalar `other`">;
def Aten_LtOp : Aten_BinaryOp<"lt", "aten::lt.Tensor", Aten_Boolean, "`self < other`">;
def Aten_LtScalarOp : Aten_ScalarOp<"lt_scalar", "aten::lt.Scalar", Aten_Boolean, "`self < other` for a scalar `other`">;
def Aten_LeOp : Aten_BinaryOp<"le", "aten::le.Tensor", Aten_Boolean, "`self <= other`">;
def Aten_LeScalarOp : Aten_ScalarOp<"le_scalar", "aten::le.Scalar", Aten_Boolean, "`self <= other` for a scalar `other`">;
def Aten_GtOp : Aten_BinaryOp<"gt", "aten::gt.Tensor", Aten_Boolean, "`self > other`">;
def Aten_GtScalarOp : Aten_ScalarOp<"gt_scalar", "aten::gt.Scalar", Aten_Boolean, "`self > other` for a scalar `other`">;
def Aten_GeOp : Aten_BinaryOp<"ge", "aten::ge.Tensor", Aten_Boolean, "`self >= other`">;
def Aten_GeScalarOp : Aten_ScalarOp<"ge_scalar", "aten::ge.Scalar", Aten_Boolean, "`self >= other` for a scalar `other`">;

def Aten_LogicalAndOp : Aten_BinaryOp<"logical_and", "aten::logical_and", Aten_Boolean, "whether both operands are nonzero">;
def Aten_LogicalOrOp : Aten_BinaryOp<"logical_or", "aten::logical_or", Aten_Boolean, "whether at least one operand is nonzero">;
def Aten_LogicalNotOp : Aten_UnaryOp<"logical_not", Aten_Boolean, "whether `self` is zero">;

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

class Aten_BitwiseOp<string mnemonic, string meaning>
    : AtenOp<mnemonic, "aten::" # mnemonic # ".Tensor", [Pointwise]> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. Both operands hold integers or bool.
    2. The shapes of the operands broadcast to that of the result.
    3. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%a, %b) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$other);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let pointwiseOut = 1;
}
def Aten_BitwiseAndOp : Aten_BitwiseOp<"bitwise_and", "bitwise and">;
def Aten_BitwiseOrOp : Aten_BitwiseOp<"bitwise_or", "bitwise or">;

def Aten_BitwiseNotOp : AtenOp<"bitwise_not", "aten::bitwise_not", [Pointwise]> {
  let summary = "bitwise complement; logical not for bool";
  let description = [{
    Constraints:
    1. `self` holds integers or bool.
    2. The result has the type of `self`.

    ```mlir
    %0 = aten.bitwise_not(%a) : (tensor<4x8xi1>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let pointwiseOut = 1;
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

def Aten_MaximumOp : Aten_BinaryOp<"maximum", "aten::maximum", Aten_Promoted, "elementwise maximum; NaN if either operand is NaN">;
def Aten_MinimumOp : Aten_BinaryOp<"minimum", "aten::minimum", Aten_Promoted, "elementwise minimum; NaN if either operand is NaN">;

class Aten_BoundOp<string mnemonic, list<string> bounds, string example, string meaning>
    : Aten_PointwiseOp<mnemonic, "aten::" # mnemonic, Aten_Promoted, bounds> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. The result has the shape of `self`.
    2. The result has the dtype to which PyTorch promotes `self` and the bounds.

    ```mlir
    %0 = aten.}] # mnemonic # "(%x, " # example # [{) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}
def Aten_ClampOp : Aten_BoundOp<"clamp", ["min", "max"], "min = 0.0, max = 1.0", "`self` clamped to `min` and `max`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$min, Aten_Scalar:$max);
}
def Aten_ClampMinOp : Aten_BoundOp<"clamp_min", ["min"], "min = 0.0", "`self`, but at least `min`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$min);
}
def Aten_ClampMaxOp : Aten_BoundOp<"clamp_max", ["max"], "max = 1.0", "`self`, but at most `max`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$max);
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

def Aten_WhereOp : AtenOp<"where", "aten::where.self", [Pointwise]> {
  let summary = "`self` where `condition` is true, else `other`";
  let description = [{
    Constraints:
    1. `condition` has dtype `i1` or `ui8`.
    2. The shapes of all three operands broadcast to that of the result.
    3. The result has the dtype to which PyTorch promotes `self` and `other`.

    ```mlir
    %0 = aten.where(%c, %a, %b)
        : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$condition, Aten_Tensor:$self, Aten_Tensor:$other);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let pointwiseOut = 1;
  let moves = ["self, other"];
}

class Aten_MaskedFillBaseOp<string mnemonic, string schema, string meaning> : AtenOp<mnemonic, schema> {
  let summary = meaning;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
}

def Aten_MaskedFillScalarOp
    : Aten_MaskedFillBaseOp<"masked_fill_scalar", "aten::masked_fill.Scalar", "a scalar where `mask` is true, else `self`"> {
  let description = [{
    Constraints:
    1. `mask` has dtype `i1`.
    2. The shapes of `self` and `mask` broadcast to that of the result.
    3. The result has the dtype of `self`.

    ```mlir
    %0 = aten.masked_fill_scalar(%x, %m, value = 0.0)
        : (tensor<4x8xf32>, tensor<4x1xi1>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mask, Aten_ReqScalar:$value);
  // A value other than 0 would be counted once per term of a sum.
  let sharding = Aten_LinearWhere<"isZero(getValue())">;
}

def Aten_MaskedFillOp
    : Aten_MaskedFillBaseOp<"masked_fill", "aten::masked_fill.Tensor", "a 0-d tensor where `mask` is true, else `self`"> {
  let description = [{
    Constraints:
    1. `mask` has dtype `i1`.
    2. The shapes of `self` and `mask` broadcast to that of the result.
    3. The result has the dtype of `self`.
    4. `value` has no dimensions.

    ```mlir
    %0 = aten.masked_fill(%x, %m, %v)
        : (tensor<4x8xf32>, tensor<4x1xi1>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$mask, Aten_Tensor:$value);
  let moves = ["self, value"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_COMPARISON
