//===- Reductions.cpp - derivatives of collectives that reduce ----------------===//
//
// A rank's operand goes into everybody's result, so its gradient begins with the *total*: the sum
// over ranks of the results' gradients. What the total is and how it reaches the rank is up to the
// op; what one operand's share of it is, to the reduction.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "lib/autodiff/DistBuilder.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;
using dist::AxisPlacement;
using dist::PlacementKind;
using dist::Reduction;

namespace {
/// One operand's part in a reduction.
struct Share {
  Backward &b;
  DistBuilder axes;
  Operation *op;
  dist::ReductionAttr reduction;
  Value input;

  /// A sum over ranks of values that differ, given to all.
  Value sum(Value value) {
    return axes.allReduce(Reduction::Sum, value, axes.typeWith(value, AxisPlacement::varying()));
  }

  /// The largest (smallest) elements share the total, as `torch.amax` has it.
  Value ofExtremum(Value result, Value total) {
    Value mask = b.compare<aten::EqOp>(input, result);
    Value count = sum(b.toType(mask, IntegerType::get(op->getContext(), 64)));
    return b.mul(b.div(total, count), mask);
  }

  /// The total times the product of the *other* ranks' elements. `result / input` would be NaN
  /// where an input is 0; so zeros are counted and left out of a product of their own: with one
  /// zero, it is the others' product on the rank that has it; with a zero elsewhere, 0.
  Value ofProduct(Value total) {
    Value isZero = b.compare<aten::EqScalarOp>(input, b.scalar(int64_t(0)));
    Value zeros = b.toType(isZero, IntegerType::get(op->getContext(), 64));
    Value elsewhere = b.sub(sum(zeros), zeros);
    Value nonzero = b.maskedFill(input, isZero, b.scalar(int64_t(1)));
    Value product = axes.allReduce(Reduction::Product, nonzero,
                                   axes.typeWith(nonzero, AxisPlacement::varying()));
    Value hasZero = b.compare<aten::NeScalarOp>(elsewhere, b.scalar(int64_t(0)));
    Value others = b.maskedFill(b.div(product, nonzero), hasZero, b.scalar(int64_t(0)));
    return b.mul(total, others);
  }

  /// The gradient of the operand, given the total. `result` makes the reduction's value, where all
  /// ranks have it. Null if it has no gradient, with an error.
  Value of(Value total, llvm::function_ref<Value()> result) {
    switch (reduction.getKind()) {
    case Reduction::Sum:
      return total;
    case Reduction::Avg:
      if (std::optional<int64_t> ranks = axes.ranks(op))
        return b.divScalar(total, b.scalar(*ranks));
      b.refuse("of an average over an axis whose size is not known ('?')");
      return {};
    case Reduction::PremulSum:
      return b.mulScalar(total, reduction.getFactor());
    case Reduction::Max:
    case Reduction::Min:
      return ofExtremum(result(), total);
    case Reduction::Product:
      return ofProduct(total);
    case Reduction::BitAnd:
    case Reduction::BitOr:
    case Reduction::BitXor:
      break;
    }
    b.refuse("of a bitwise reduction");
    return {};
  }

  LogicalResult give(Value total, llvm::function_ref<Value()> result) {
    Value gradient = of(total, result);
    if (!gradient)
      return failure();
    b.to(input, gradient);
    return success();
  }
};
} // namespace

/// The results' gradients summed over ranks. Where the results are one value (I) with one gradient,
/// there is nothing to sum.
static SmallVector<Value> totalsOf(DistBuilder &axes, ArrayRef<Value> gradients) {
  SmallVector<Value> totals(gradients), summed;
  SmallVector<Type> types;
  for (Value gradient : gradients) {
    PlacementKind kind = axes.kindOf(gradient.getType());
    if (kind == PlacementKind::I)
      continue;
    summed.push_back(gradient);
    types.push_back(axes.typeWith(gradient, kind == PlacementKind::P ? AxisPlacement::replicate()
                                                                     : AxisPlacement::varying()));
  }
  if (summed.empty())
    return totals;
  SmallVector<Value> sums = axes.allReduce(Reduction::Sum, summed, types);
  size_t next = 0;
  for (Value &total : totals)
    if (axes.kindOf(total.getType()) != PlacementKind::I)
      total = sums[next++];
  return totals;
}

static LogicalResult differentiateAllReduce(dist::AllReduceOp op, Backward &b) {
  DistBuilder axes(b, op);
  SmallVector<unsigned> wanted;
  SmallVector<Value> gradients;
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    if (Value gradient = b.gradient(i); gradient && b.needs(input)) {
      if (!b.gradientType(input))
        return failure();
      wanted.push_back(i);
      gradients.push_back(gradient);
    }
  SmallVector<Value> totals = totalsOf(axes, gradients);
  for (auto [i, total] : llvm::zip_equal(wanted, totals)) {
    Share share{b, axes, op, op.getReduction(), op.getInputs()[i]};
    if (failed(share.give(total, [&, i = i] { return valueOf(op->getResult(i)); })))
      return failure();
  }
  return success();
}

/// All ranks get the gradients of all parts, side by side; each part's total.
static LogicalResult differentiateReduceScatter(dist::ReduceScatterOp op, Backward &b) {
  DistBuilder axes(b, op);
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value gradient = b.gradient(i);
    if (!gradient || !b.needs(input))
      continue;
    RankedTensorType type = b.gradientType(input);
    if (!type)
      return failure();
    Value total = axes.allGather(gradient, op.getDim(), type);
    Share share{b, axes, op, op.getReduction(), input};
    LogicalResult given = share.give(total, [&, i = i] {
      Value part = valueOf(op->getResult(i));
      return axes.allGather(part, op.getDim(), input.getType());
    });
    if (failed(given))
      return failure();
  }
  return success();
}

/// Only the root's gradient counts, and with a max, min or product the root's result.
static LogicalResult differentiateReduce(dist::ReduceOp op, Backward &b) {
  DistBuilder axes(b, op);
  Value input = op.getInput();
  RankedTensorType type = b.gradientType(input);
  if (!type)
    return failure();
  Value total = axes.broadcast(b.gradient(), op.getRoot(), type);
  Share share{b, axes, op, op.getReduction(), input};
  return share.give(total, [&] {
    return axes.broadcast(valueOf(cast<OpResult>(op.getResult())), op.getRoot(), input.getType());
  });
}

void cleave::autodiff::attachDistReductionRules(MLIRContext &context) {
  attachForComplex<dist::AllReduceOp, differentiateAllReduce>(context);
  attachForComplex<dist::ReduceScatterOp, differentiateReduceScatter>(context);
  attachForComplex<dist::ReduceOp, differentiateReduce>(context);
}
