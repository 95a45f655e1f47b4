//===- Loss.cpp - derivatives of loss functions -------------------------------===//

#include "dialects/aten/ops/Loss.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

static LogicalResult differentiateNllLoss(NllLossForwardOp op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  if (b.needs(op.getWeight()))
    return b.refuse("with respect to `weight`");
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<Value> operands = {b.gradient(), self, op.getTarget()};
    if (op.getWeight())
      operands.push_back(op.getWeight());
    operands.push_back(op.getTotalWeight());
    return b.makeLike<NllLossBackwardOp>(self, operands,
                                         {b.integer("reduction", op.getReduction()),
                                          b.integer("ignore_index", op.getIgnoreIndex())});
  });
  return success();
}

static void differentiateMseLoss(MseLossOp op, Backward &b) {
  auto gradient = [&](Value of, Value from) {
    return b.make<MseLossBackwardOp>(*broadcastShapes(shapeOf(of), shapeOf(from)), dtypeOf(of),
                                     {b.gradient(), of, from},
                                     b.integer("reduction", op.getReduction().value_or(1)));
  };
  b.to(op.getSelf(), [&] { return gradient(op.getSelf(), op.getTarget()); });
  b.to(op.getTarget(), [&] { return gradient(op.getTarget(), op.getSelf()); });
}

void cleave::autodiff::attachLossRules(MLIRContext &context) {
  attach<NllLossForwardOp, differentiateNllLoss>(context);
  attach<MseLossOp, differentiateMseLoss>(context);
}
