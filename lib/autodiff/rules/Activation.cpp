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

/// A constant of the op, which its gradient's schema wants written out.
static NamedAttribute constant(Backward &b, StringRef name, Attribute given, int64_t otherwise) {
  return b.named(name, given ? given : b.scalar(otherwise));
}

static LogicalResult differentiateLogSigmoid(LogSigmoidForwardOp op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  Value g = b.gradient(), self = op.getSelf();
  b.to(self, [&] { return b.makeLike<LogSigmoidBackwardOp>(g, {g, self, op.getBuffer()}); });
  return success();
}

/// One kernel for both gradients; that of `weight` is summed to its shape.
static void differentiatePrelu(PreluKernelOp op, Backward &b) {
  Value g = b.gradient(), self = op.getSelf(), weight = op.getWeight();
  Type type = RankedTensorType::get(shapeOf(self), dtypeOf(self));
  Operation *kernel = b.create<PreluKernelBackwardOp>({type, type}, {g, self, weight});
  b.to(self, kernel->getResult(0));
  b.to(weight, kernel->getResult(1));
}

static void attachWithConstants(MLIRContext &context) {
  attach<SoftplusOp, [](SoftplusOp op, Backward &b) {
    differentiateBy<SoftplusBackwardOp>(b, op.getSelf(), op.getSelf(),
                                        {constant(b, "beta", op.getBetaAttr(), 1),
                                         constant(b, "threshold", op.getThresholdAttr(), 20)});
  }>(context);
  attach<LeakyReluOp, [](LeakyReluOp op, Backward &b) {
    Attribute slope = op.getNegativeSlopeAttr();
    differentiateBy<LeakyReluBackwardOp>(b, op.getSelf(), op.getSelf(),
                                         {b.named("negative_slope", slope ? slope : b.scalar(0.01)),
                                          b.boolean("self_is_result", false)});
  }>(context);
  attach<EluOp, [](EluOp op, Backward &b) {
    differentiateBy<EluBackwardOp>(
        b, op.getSelf(), op.getSelf(),
        {constant(b, "alpha", op.getAlphaAttr(), 1), constant(b, "scale", op.getScaleAttr(), 1),
         constant(b, "input_scale", op.getInputScaleAttr(), 1), b.boolean("is_result", false)});
  }>(context);
  attach<CeluOp, [](CeluOp op, Backward &b) {
    Attribute alpha = op.getAlphaAttr() ? op.getAlphaAttr() : b.scalar(int64_t(1));
    auto real = dyn_cast<FloatAttr>(alpha);
    double number = real ? real.getValueAsDouble() : double(cast<IntegerAttr>(alpha).getInt());
    // PyTorch's formula reads `alpha` in single precision here.
    Attribute inverse = b.scalar(1.0 / double(float(number)));
    differentiateBy<EluBackwardOp>(b, op.getSelf(), op.getSelf(),
                                   {b.named("alpha", alpha), constant(b, "scale", nullptr, 1),
                                    b.named("input_scale", inverse),
                                    b.boolean("is_result", false)});
  }>(context);
  attach<HardshrinkOp, [](HardshrinkOp op, Backward &b) {
    Attribute lambd = op.getLambdAttr();
    differentiateBy<HardshrinkBackwardOp>(b, op.getSelf(), op.getSelf(),
                                          b.named("lambd", lambd ? lambd : b.scalar(0.5)));
  }>(context);
  attach<SoftshrinkOp, [](SoftshrinkOp op, Backward &b) {
    Attribute lambd = op.getLambdAttr();
    differentiateBy<SoftshrinkBackwardOp>(b, op.getSelf(), op.getSelf(),
                                          b.named("lambd", lambd ? lambd : b.scalar(0.5)));
  }>(context);
  attach<HardtanhOp, [](HardtanhOp op, Backward &b) {
    differentiateBy<HardtanhBackwardOp>(b, op.getSelf(), op.getSelf(),
                                        {constant(b, "min_val", op.getMinValAttr(), -1),
                                         constant(b, "max_val", op.getMaxValAttr(), 1)});
  }>(context);
  attach<ThresholdOp, [](ThresholdOp op, Backward &b) {
    differentiateBy<ThresholdBackwardOp>(b, op.getSelf(), op.getSelf(),
                                         b.named("threshold", op.getThreshold()));
  }>(context);
  attach<GluOp, [](GluOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.makeLike<GluBackwardOp>(op.getSelf(), {b.gradient(), op.getSelf()},
                                       b.integer("dim", op.getDim().value_or(-1)));
    });
  }>(context);
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
  attach<HardswishOp, [](HardswishOp op, Backward &b) {
    differentiateBy<HardswishBackwardOp>(b, op.getSelf(), op.getSelf());
  }>(context);
  attach<HardsigmoidOp, [](HardsigmoidOp op, Backward &b) {
    differentiateBy<HardsigmoidBackwardOp>(b, op.getSelf(), op.getSelf());
  }>(context);
  attach<MishOp, [](MishOp op, Backward &b) {
    differentiateBy<MishBackwardOp>(b, op.getSelf(), op.getSelf());
  }>(context);
  attachWithConstants(context);
  attach<LogSigmoidForwardOp, differentiateLogSigmoid>(context);
  attach<PreluKernelOp, differentiatePrelu>(context);
  attach<SoftmaxOp, differentiateSoftmax<SoftmaxBackwardDataOp, SoftmaxOp>>(context);
  attach<LogSoftmaxOp, differentiateSoftmax<LogSoftmaxBackwardDataOp, LogSoftmaxOp>>(context);
  attach<SafeSoftmaxOp, differentiateSafeSoftmax>(context);
}
