//===- Loss.cpp - derivatives of loss functions -------------------------------===//

#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Activation.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// What the gradient of a loss takes first: its own gradient, scores, targets, weights if any.
template <typename OpTy> static SmallVector<Value> gradientOperands(OpTy op, Backward &b) {
  SmallVector<Value> operands = {b.gradient(), op.getSelf(), op.getTarget()};
  if (op.getWeight())
    operands.push_back(op.getWeight());
  return operands;
}

template <typename Gradient, typename OpTy>
static LogicalResult differentiateNllLoss(OpTy op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  if (b.needs(op.getWeight()))
    return b.refuse("with respect to `weight`");
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<Value> operands = gradientOperands(op, b);
    operands.push_back(op.getTotalWeight());
    return b.makeLike<Gradient>(self, operands,
                                {b.integer("reduction", op.getReduction()),
                                 b.integer("ignore_index", op.getIgnoreIndex())});
  });
  return success();
}

static LogicalResult differentiateMargins(MultiMarginLossOp op, Backward &b) {
  if (b.needs(op.getWeight()))
    return b.refuse("with respect to `weight`");
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<Value> operands = gradientOperands(op, b);
    Attribute p = op.getPAttr(), margin = op.getMarginAttr();
    return b.makeLike<MultiMarginLossBackwardOp>(
        self, operands,
        {b.named("p", p ? p : b.scalar(int64_t(1))),
         b.named("margin", margin ? margin : b.scalar(int64_t(1))),
         b.integer("reduction", op.getReduction().value_or(1))});
  });
  return success();
}

/// `Gradient` of a distance between `of` and `from`, with respect to `of`; `more` are its constants
/// beside the reduction.
template <typename Gradient, typename OpTy>
static Value elementGradient(OpTy op, Backward &b, Value of, Value from,
                             ArrayRef<NamedAttribute> more) {
  SmallVector<NamedAttribute> attributes(more);
  attributes.push_back(b.integer("reduction", op.getReduction().value_or(1)));
  return b.make<Gradient>(*broadcastShapes(shapeOf(of), shapeOf(from)), dtypeOf(of),
                          {b.gradient(), of, from}, attributes);
}

/// A distance, the same from either side.
template <typename Gradient, typename OpTy>
static void differentiateDistance(OpTy op, Backward &b, ArrayRef<NamedAttribute> more = {}) {
  Value self = op.getSelf(), target = op.getTarget();
  b.to(self, [&] { return elementGradient<Gradient>(op, b, self, target, more); });
  b.to(target, [&] { return elementGradient<Gradient>(op, b, target, self, more); });
}

static LogicalResult differentiateSoftMargin(SoftMarginLossOp op, Backward &b) {
  if (b.needs(op.getTarget()))
    return b.refuse("with respect to `target`");
  b.to(op.getSelf(), [&] {
    return elementGradient<SoftMarginLossBackwardOp>(op, b, op.getSelf(), op.getTarget(), {});
  });
  return success();
}

static LogicalResult differentiateBinaryCrossEntropy(BinaryCrossEntropyOp op, Backward &b) {
  if (b.needs(op.getTarget()) || b.needs(op.getWeight()))
    return b.refuse("with respect to `target` or `weight`");
  Value self = op.getSelf();
  b.to(self, [&] {
    return b.makeLike<BinaryCrossEntropyBackwardOp>(
        self, gradientOperands(op, b), b.integer("reduction", op.getReduction().value_or(1)));
  });
  return success();
}

/// As `binary_cross_entropy_with_logits_backward`, which is not an operator.
static LogicalResult differentiateLogits(BinaryCrossEntropyWithLogitsOp op, Backward &b) {
  Value self = op.getSelf(), target = op.getTarget();
  if (b.needs(target) || b.needs(op.getWeight()) || b.needs(op.getPosWeight()))
    return b.refuse("with respect to `target` or weights");
  b.to(self, [&] {
    Value likely = b.unary<SigmoidOp>(self), slope;
    if (Value weight = op.getPosWeight()) {
      Value t = b.mul(weight, target);
      slope = b.mul(b.sub(b.mul(b.sub(b.addScalar(t, b.scalar(int64_t(1))), target), likely), t),
                    b.gradient());
    } else {
      slope = b.mul(b.sub(likely, target), b.gradient());
    }
    if (op.getWeight())
      slope = b.mul(slope, op.getWeight());
    if (op.getReduction().value_or(1) != 1)
      return slope;
    return b.divScalar(slope, b.scalar(tensorType(self).getNumElements()));
  });
  return success();
}

void cleave::autodiff::attachLossRules(MLIRContext &context) {
  attach<NllLossForwardOp, differentiateNllLoss<NllLossBackwardOp, NllLossForwardOp>>(context);
  attach<NllLoss2dForwardOp, differentiateNllLoss<NllLoss2dBackwardOp, NllLoss2dForwardOp>>(
      context);
  attach<MultiMarginLossOp, differentiateMargins>(context);
  attach<MseLossOp, [](MseLossOp op, Backward &b) {
    differentiateDistance<MseLossBackwardOp>(op, b);
  }>(context);
  attach<HuberLossOp, [](HuberLossOp op, Backward &b) {
    double delta = op.getDelta() ? op.getDelta()->convertToDouble() : 1.0;
    differentiateDistance<HuberLossBackwardOp>(op, b, b.number("delta", delta));
  }>(context);
  attach<SmoothL1LossOp, [](SmoothL1LossOp op, Backward &b) {
    double beta = op.getBeta() ? op.getBeta()->convertToDouble() : 1.0;
    differentiateDistance<SmoothL1LossBackwardOp>(op, b, b.number("beta", beta));
  }>(context);
  attach<SoftMarginLossOp, differentiateSoftMargin>(context);
  attach<BinaryCrossEntropyOp, differentiateBinaryCrossEntropy>(context);
  attach<BinaryCrossEntropyWithLogitsOp, differentiateLogits>(context);
}
