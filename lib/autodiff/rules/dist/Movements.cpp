//===- Movements.cpp - derivatives of collectives that move values ------------===//

#include "dialects/aten/ops/Comparison.h"
#include "lib/autodiff/DistBuilder.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;
using dist::PlacementKind;

/// Each rank's part is in everybody's result: its gradient is the sum of all, or where the result
/// is one value with one gradient, its part of that.
static LogicalResult differentiateAllGather(dist::AllGatherOp op, Backward &b) {
  DistBuilder axes(b, op);
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value gradient = b.gradient(i);
    if (!gradient || !b.needs(input))
      continue;
    RankedTensorType type = b.gradientType(input);
    if (!type)
      return failure();
    if (axes.kindOf(gradient.getType()) == PlacementKind::I)
      b.to(input, axes.make(dist::FakeScatterOp::getOperationName(), gradient, type,
                            b.integer("dim", op.getDim())));
    else
      b.to(input, axes.reduceScatter(gradient, op.getDim(), type));
  }
  return success();
}

/// The root's value is everybody's: the root gets the sum, the others nothing.
static LogicalResult differentiateBroadcast(dist::BroadcastOp op, Backward &b) {
  DistBuilder axes(b, op);
  Value g = b.gradient();
  RankedTensorType type = b.gradientType(op.getInput());
  if (!type)
    return failure();
  if (axes.kindOf(g.getType()) != PlacementKind::I) {
    b.to(op.getInput(), axes.reduce(g, op.getRoot(), type));
    return success();
  }
  // One value, one gradient, and every rank has it.
  Value isRoot = b.compare<aten::EqScalarOp>(axes.index(g), b.scalar(int64_t(op.getRoot())));
  b.to(op.getInput(), b.keepWhere(isRoot, g));
  return success();
}

/// The rules that are one communication back, in the type of the operand's gradient.
template <typename OpTy>
static LogicalResult moveBack(OpTy op, Backward &b, StringRef name,
                              ArrayRef<NamedAttribute> attributes) {
  RankedTensorType type = b.gradientType(op.getInput());
  if (!type)
    return failure();
  b.to(op.getInput(),
       [&] { return DistBuilder(b, op).make(name, b.gradient(), type, attributes); });
  return success();
}

void cleave::autodiff::attachDistMovementRules(MLIRContext &context) {
  attachForComplex<dist::AllGatherOp, differentiateAllGather>(context);
  attachForComplex<dist::BroadcastOp, differentiateBroadcast>(context);
  attachForComplex<dist::AllToAllOp, [](dist::AllToAllOp op, Backward &b) {
    return moveBack(op, b, op->getName().getStringRef(),
                    {b.integer("split", op.getConcat()), b.integer("concat", op.getSplit())});
  }>(context);
  // What came goes back where it came from, and rows that went nowhere get zeros.
  attachForComplex<dist::RaggedAllToAllOp, [](dist::RaggedAllToAllOp op, Backward &b) {
    RankedTensorType type = b.gradientType(op.getInput());
    if (!type)
      return failure();
    b.to(op.getInput(), [&] {
      return DistBuilder(b, op).make(op->getName().getStringRef(),
                                     {b.gradient(), op.getReceives(), op.getSends()}, type);
    });
    return success();
  }>(context);
  attachForComplex<dist::GatherOp, [](dist::GatherOp op, Backward &b) {
    return moveBack(op, b, dist::ScatterOp::getOperationName(),
                    {b.integer("dim", op.getDim()), b.integer("root", op.getRoot())});
  }>(context);
  attachForComplex<dist::ScatterOp, [](dist::ScatterOp op, Backward &b) {
    return moveBack(op, b, dist::GatherOp::getOperationName(),
                    {b.integer("dim", op.getDim()), b.integer("root", op.getRoot())});
  }>(context);
  attachForComplex<dist::PermuteOp, [](dist::PermuteOp op, Backward &b) {
    return moveBack(
        op, b, op->getName().getStringRef(),
        {b.integers("sources", op.getDestinations()), b.integers("destinations", op.getSources())});
  }>(context);
  attachForComplex<dist::ShiftOp, [](dist::ShiftOp op, Backward &b) {
    SmallVector<NamedAttribute> attributes = {b.integer("by", -int64_t(op.getBy()))};
    if (op.getWrap())
      attributes.push_back(b.named("wrap", op.getWrapAttr()));
    return moveBack(op, b, op->getName().getStringRef(), attributes);
  }>(context);
  // The gradient of a copy is that of the value; it stays on the device.
  attachForComplex<dist::OffloadOp, [](dist::OffloadOp op, Backward &b) {
    b.to(op.getInput(), b.gradient());
  }>(context);
  attachForComplex<dist::ReloadOp, [](dist::ReloadOp op, Backward &b) {
    b.to(op.getInput(), b.gradient());
  }>(context);
  // What was started is differentiated where it was started, as if it had been done there.
  attachForComplex<dist::WaitOp, [](dist::WaitOp op, Backward &b) {
    b.to(op.getFuture(), b.gradient());
  }>(context);
}
