//===- Aten.h - the aten dialect: dialect class, argument model, interface -*- C++ -*-===//
//
// The ops themselves are in `dialects/aten/ops/*.h`, by category; most code needs only the
// interface declared here.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_ATEN_H
#define CLEAVE_DIALECTS_ATEN_ATEN_H

#include "dialects/aten/Flops.h"
#include "dialects/cost/CostInterface.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace cleave::aten {

/// One argument as an op's record declares it. `kind` is 'T' (tensor), 'O' (optional tensor),
/// 'L' (list of tensors) or 'A' (attribute). An attribute `X_present` right after a list X says
/// which elements of a `Tensor?[]` are there; it has no place in the text form.
struct ArgumentSpec {
  const char *name;
  char kind;

  bool isPresenceMask() const { return kind == 'A' && llvm::StringRef(name).ends_with("_present"); }
};

/// One argument of one op, with its value. Tensor: `values[0]`; list: `values`, in which a null
/// value stands for None; everything else: `attribute`. An optional tensor that is None has kind
/// 'O' and no values. A `Scalar` that is computed at run time has kind 'N' and is `values[0]`.
struct Argument {
  llvm::StringRef name;
  char kind;
  llvm::SmallVector<mlir::Value, 1> values;
  mlir::Attribute attribute;
};

/// Ranked tensors of static shape with a dtype PyTorch has: f16, bf16, f32, f64, i8, ui8, i16,
/// i32, i64, i1 (bool), complex<f32>, complex<f64>.
bool isTensor(mlir::Type type);
/// An attribute for a `Scalar`: i64, f64, bool or `#aten.complex`.
bool isScalar(mlir::Attribute attribute);

/// What of a matrix, whose columns are the last dimension, an element of an op's results needs.
enum class RowKind : uint8_t {
  Pointwise, ///< what the sharding rule says is in its place
  Ordered,   ///< a view: the elements stay in their order
  Exchanged, ///< a view that exchanges rows, or repeats them
  Window,    ///< results and operands have windows of each other's rows
  Reduced,   ///< a sum or maximum along rows, or over all of them
  Whole,     ///< the whole row, which is all that the sharding rule says
  Picked,    ///< one element of each row, which an index names
};

/// `indices` are places along dimension `dim` of `table`, or `ignored`, which is looked up nowhere.
struct LookUp {
  mlir::Value indices, table;
  unsigned dim;
  std::optional<int64_t> ignored;
};

template <typename ConcreteOp>
class Pointwise : public mlir::OpTrait::TraitBase<ConcreteOp, Pointwise> {};
template <typename ConcreteOp>
class CopyLike : public mlir::OpTrait::TraitBase<ConcreteOp, CopyLike> {};
template <typename ConcreteOp>
class PointwiseOut : public mlir::OpTrait::TraitBase<ConcreteOp, PointwiseOut> {};

} // namespace cleave::aten

namespace cleave::aten {

class RuleBuilder;

/// How many operands each tensor argument of `specs` has, in their order.
llvm::SmallVector<int32_t> operandSegments(mlir::Operation *op, llvm::ArrayRef<ArgumentSpec> specs);

// Shared by all ops' generated code.
mlir::ParseResult parseAtenOp(mlir::OpAsmParser &parser, mlir::OperationState &state,
                              llvm::ArrayRef<ArgumentSpec> specs);
void printAtenOp(mlir::Operation *op, mlir::OpAsmPrinter &printer);
llvm::SmallVector<Argument> collectArguments(mlir::Operation *op);
mlir::LogicalResult verifyAtenOp(mlir::Operation *op);

} // namespace cleave::aten

#include "dialects/aten/AtenDialect.h.inc"
#include "dialects/aten/AtenEnums.h.inc"
#include "dialects/aten/AtenInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/aten/AtenAttrs.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_ATEN_H
