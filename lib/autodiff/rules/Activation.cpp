//===- Activation.cpp - derivatives of activation functions and softmax -------===//
//
// Each is a kernel of its own, which sees the operand or the result.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Activation.h"
#include "dialects/aten/ops/Softmax.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// `Gradient(grad, saved)`, in the type of the operand.
template <typename Gradient>
static void differentiateBy(Backward &b, Value self, Value saved,
                            ArrayRef<NamedAttribute> attributes = {}) {
  b.to(self, [&] { return b.makeLike<Gradient>(b.gradient(), {b.gradient(), saved}, attributes); });
}

template <typename Gradient, typename OpTy> static void differentiateSoftmax(OpTy op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    return b.makeLike<Gradient>(
        self, {b.gradient(), op.getResult()},
        {b.integer("dim", op.getDim()), b.dtype("input_dtype", dtypeOf(self))});
  });
}

/// Its kernel is softmax's; with `dtype` the operand is converted first.
static void differentiateSafeSoftmax(SafeSoftmaxOp op, Backward &b) {
  Value result = op.getResult();
  b.to(op.getSelf(), [&] {
    return b.makeLike<SoftmaxBackwardDataOp>(
        result, {b.gradient(), result},
        {b.integer("dim", op.getDim()), b.dtype("input_dtype", dtypeOf(result))});
  });
}

void cleave::autodiff::attachActivationRules(MLIRContext &context) {
  attach<ReluOp, [](ReluOp op, Backward &b) {
    differentiateBy<ThresholdBackwardOp>(b, op.getSelf(), op.getResult(),
                                         b.named("threshold", b.scalar(int64_t(0))));
  }>(context);
  attach<SiluOp, [](SiluOp op, Backward &b) {
    differentiateBy<SiluBackwardOp>(b, op.getSelf(), op.getSelf());
  }>(context);
  attach<SigmoidOp, [](SigmoidOp op, Backward &b) {
    differentiateBy<SigmoidBackwardOp>(b, op.getSelf(), op.getResult());
  }>(context);
  attach<TanhOp, [](TanhOp op, Backward &b) {
    differentiateBy<TanhBackwardOp>(b, op.getSelf(), op.getResult());
  }>(context);
  attach<GeluOp, [](GeluOp op, Backward &b) {
    SmallVector<NamedAttribute, 1> attributes;
    if (StringAttr approximate = op.getApproximateAttr())
      attributes.push_back(b.named("approximate", approximate));
    differentiateBy<GeluBackwardOp>(b, op.getSelf(), op.getSelf(), attributes);
  }>(context);
  attach<SoftmaxOp, differentiateSoftmax<SoftmaxBackwardDataOp, SoftmaxOp>>(context);
  attach<LogSoftmaxOp, differentiateSoftmax<LogSoftmaxBackwardDataOp, LogSoftmaxOp>>(context);
  attach<SafeSoftmaxOp, differentiateSafeSoftmax>(context);
}
