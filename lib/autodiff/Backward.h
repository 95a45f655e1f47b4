//===- Backward.h - what a derivative rule sees --------------------*- C++ -*-===//
//
// A rule is a function of one op and a `Backward`. It asks for the gradients of the op's results
// and which operands need one, and hands the operands' gradients back:
//
//   attach<aten::MulOp, [](aten::MulOp op, Backward &b) {
//     b.to(op.getSelf(), [&] { return b.mul(b.gradient(), op.getOther()); });
//     b.to(op.getOther(), [&] { return b.mul(b.gradient(), op.getSelf()); });
//   }>(context);
//
// Broadcasting, promotion of dtypes, summing several uses and placements are none of its business.
// Rules follow PyTorch's (tools/autograd/derivatives.yaml), formula by formula and kernel by
// kernel: then gradients have eager mode's bits.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_AUTODIFF_BACKWARD_H
#define CLEAVE_LIB_AUTODIFF_BACKWARD_H

#include "lib/aten/AtenBuilder.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/SaveAndRestore.h"

namespace cleave::autodiff {

using aten::dtypeOf;
using aten::gradientTypeOf;
using aten::rankOf;
using aten::shapeOf;
using mlir::Value;

class Backward : public aten::AtenBuilder {
public:
  /// `varied`: the values that depend differentiably on what is differentiated.
  Backward(mlir::OpBuilder &builder, const llvm::DenseSet<Value> &varied, dist::PlacementAttr frame)
      : AtenBuilder(builder, frame), varied(varied) {}

  //===--------------------------------------------------------------------===//
  // For rules
  //===--------------------------------------------------------------------===//

  /// The gradient of the op's result; null if none reached it.
  Value gradient(unsigned result = 0) const { return gradientOf(op->getResult(result)); }

  /// Whether the operand needs a gradient; false for null, an absent optional operand.
  bool needs(Value operand) const { return operand && varied.contains(operand); }

  /// Adds to the operand's gradient what `make` builds, if the operand needs one. Where the operand
  /// was broadcast, its gradient is summed; it is converted to the operand's dtype.
  template <typename Make> void to(Value operand, Make &&make) {
    if (!needs(operand))
      return;
    llvm::SaveAndRestore preference(preferred, gradientType(operand));
    if constexpr (std::is_convertible_v<Make, Value>)
      accumulate(operand, make);
    else
      accumulate(operand, make());
  }

  /// The type of the operand's gradient, for rules whose ops have their types written on them.
  /// Null, with an error at the op, where no gradient passes.
  mlir::RankedTensorType gradientType(Value operand);

  /// Fails with an error at the op if a gradient reached any result but the first: the rule has
  /// none for the others.
  mlir::LogicalResult expectOnlyFirst();

  /// An error at the op: that it has no derivative, because `why`.
  mlir::InFlightDiagnostic refuse(const llvm::Twine &why);

  //===--------------------------------------------------------------------===//
  // For the driver
  //===--------------------------------------------------------------------===//

  /// Turns to `op`: what is built from now on has its location, is marked as part of the backward
  /// and keeps its pipeline stage.
  void enter(mlir::Operation *op);
  Value gradientOf(Value value) const { return gradients.lookup(value); }
  void accumulate(Value value, Value gradient);

private:
  const llvm::DenseSet<Value> &varied;
  llvm::DenseMap<Value, Value> gradients;
  mlir::Operation *op = nullptr;
};

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_BACKWARD_H
