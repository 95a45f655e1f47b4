//===- PointwiseBase.td - the base of pointwise ops -*- tablegen -*-===//
//
// Element i of the result depends on element i of the (broadcast) operands only. The verifier of
// such an op follows from its dtype rule, so it is generated from the record.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_POINTWISEBASE
#define CLEAVE_DIALECTS_ATEN_OPS_POINTWISEBASE

include "dialects/aten/AtenBase.td"

/// The dtype of a result; `text` states the constraint.
class Aten_DTypeRule<string name, string text> {
  string enumerator = "::cleave::aten::DTypeRule::" # name;
  string constraint = text;
}
def Aten_Promoted : Aten_DTypeRule<"Promoted",
    "The result has the dtype to which PyTorch promotes the operands.">;
def Aten_Floating : Aten_DTypeRule<"Floating",
    "The result has the dtype to which PyTorch promotes the operands; `f32` for integers.">;
def Aten_Boolean : Aten_DTypeRule<"Bool", "The result has dtype `i1`.">;
def Aten_Real : Aten_DTypeRule<"Real",
    "The result has the dtype of the operand; of complex numbers, that of their parts.">;
def Aten_LikeSelf : Aten_DTypeRule<"Self", "The result has the dtype of the first operand.">;

/// `scalars` names the Scalar arguments that take part in type promotion.
class Aten_PointwiseOp<string mnemonic, string schema, Aten_DTypeRule rule, list<string> scalars = []>
    : AtenOp<mnemonic, schema, [Pointwise]> {
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let pointwiseOut = 1;
  let extraDefinitions = "::llvm::LogicalResult $cppClass::verify() { return ::cleave::aten::verifyPointwise(*this, "
      # rule.enumerator # ", {" # !interleave(!foreach(s, scalars, "\"" # s # "\""), ", ") # "}); }\n";
}

/// Linear in `self` if the condition holds.
class Aten_LinearWhere<string condition>
    : Aten_Sharding<Aten_PointwiseSharding.statements # " if (" # condition # ") rule.linear(\"self\");", 0,
                    Aten_PointwiseRows>;

class Aten_UnaryOp<string mnemonic, Aten_DTypeRule rule, string meaning>
    : Aten_PointwiseOp<mnemonic, "aten::" # mnemonic, rule> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. The result has the shape of `self`.
    2. }] # rule.constraint # [{

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x) : (tensor<4x8xf32>) -> tensor<4x8x}]
      # !if(!eq(rule.enumerator, Aten_Boolean.enumerator), "i1", "f32") # [{>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
}

/// Two tensors that broadcast against each other.
class Aten_BinaryOp<string mnemonic, string schema, Aten_DTypeRule rule, string meaning>
    : Aten_PointwiseOp<mnemonic, schema, rule> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. }] # rule.constraint # [{

    ```mlir
    %0 = aten.}] # mnemonic # [{(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8x}]
      # !if(!eq(rule.enumerator, Aten_Boolean.enumerator), "i1", "f32") # [{>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$other);
}

/// A tensor and a scalar; the scalar affects only the category of the dtype, as in PyTorch.
class Aten_ScalarOp<string mnemonic, string schema, Aten_DTypeRule rule, string meaning>
    : Aten_PointwiseOp<mnemonic, schema, rule, ["other"]> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. The result has the shape of `self`.
    2. }] # rule.constraint # [{

    ```mlir
    %0 = aten.}] # mnemonic # [{(%x, other = 0.5) : (tensor<4x8xf32>) -> tensor<4x8x}]
      # !if(!eq(rule.enumerator, Aten_Boolean.enumerator), "i1", "f32") # [{>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$other);
}

/// The gradient of an activation from the gradient of its result and from `saved`.
class Aten_BackwardOp<string mnemonic, string forward, string saved>
    : Aten_PointwiseOp<mnemonic, "aten::" # mnemonic, Aten_Promoted> {
  let summary = "gradient of `" # forward # "`";
  let linear = ["grad_output"];
  let description = [{
    The gradient of the operand of `}] # forward # [{`, given the gradient of its result and `}] # saved # [{`.

    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.}] # mnemonic # [{(%g, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

/// A function of a tensor and of scalars, which do not affect the dtype; `numbers` are the scalar arguments
/// in the example.
class Aten_NumbersOp<string mnemonic, string numbers, string meaning>
    : Aten_PointwiseOp<mnemonic, "aten::" # mnemonic, Aten_LikeSelf> {
  let summary = meaning;
  let description = [{
    Constraints:
    1. The result has the shape of `self`.
    2. The result has the dtype of the first operand.

    ```mlir
    %0 = aten.}] # mnemonic # "(%x, " # numbers # [{) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

/// The gradient of such a function; `example` are the arguments in the example.
class Aten_NumbersBackwardOp<string mnemonic, string forward, string saved, string example>
    : Aten_BackwardOp<mnemonic, forward, saved> {
  let description = [{
    The gradient of the operand of `}] # forward # [{`, given the gradient of its result and `}] # saved # [{`.

    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.}] # mnemonic # "(" # example # [{)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_POINTWISEBASE
