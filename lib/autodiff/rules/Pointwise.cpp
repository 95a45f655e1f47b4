//===- Pointwise.cpp - derivatives of arithmetic, selection and bounds --------===//

#include "dialects/aten/DTypes.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "lib/autodiff/Rules.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// `a / b` with respect to `b`, as `div_tensor_other_grad`.
static Value divisorGradient(Backward &b, Value self, Value other) {
  return b.mul(b.neg(b.gradient()), b.conj(b.div(b.div(self, other), other)));
}

/// `self ^ exponent` for a number.
static LogicalResult differentiatePower(PowTensorScalarOp op, Backward &b) {
  Attribute number = op.getExponent();
  if (isa<ComplexAttr>(number))
    return b.refuse("for a complex exponent");
  auto real = dyn_cast<FloatAttr>(number);
  double exponent =
      real ? real.getValueAsDouble() : cast<IntegerAttr>(number).getValue().getSExtValue();
  if (isa<BoolAttr>(number))
    exponent = cast<BoolAttr>(number).getValue();
  b.to(op.getSelf(), [&] {
    if (exponent == 0.0)
      return b.zeroGradient(op.getSelf());
    Value power = b.powScalar(op.getSelf(), exponent - 1);
    return b.mul(b.gradient(), b.conj(b.mulScalar(power, b.scalar(exponent))));
  });
  return success();
}

/// `self ^ exponent` for tensors: no gradient where 0 ^ 0 would make NaN of it.
static void differentiateTensorPower(PowOp op, Backward &b) {
  Value g = b.gradient(), self = op.getSelf(), exponent = op.getExponent();
  Attribute zero = b.scalar(0.0);
  b.to(self, [&] {
    Value less = b.subScalar(exponent, b.scalar(int64_t(1)));
    Value slope = b.mul(g, b.mul(exponent, b.pow(self, less)));
    return b.where(b.compare<EqScalarOp>(exponent, zero), b.zeroBeside(slope), slope);
  });
  b.to(exponent, [&] {
    Attribute none = b.scalar(int64_t(0));
    Value flat = b.compare<LogicalAndOp>(b.compare<EqScalarOp>(self, none),
                                         b.compare<GeScalarOp>(exponent, none));
    Value base = isFloating(dtypeOf(self)) ? self : b.toType(self, dtypeOf(op.getResult()));
    Value slope = b.mul(op.getResult(), b.unary<LogOp>(base));
    return b.mul(g, b.where(flat, b.zeroBeside(slope), slope));
  });
}

/// A number to the power of a tensor, as `pow_backward_exponent`.
static void differentiateExponential(PowScalarOp op, Backward &b) {
  Attribute base = op.getSelf();
  double number = 0;
  if (auto real = dyn_cast<FloatAttr>(base))
    number = real.getValueAsDouble();
  else if (auto boolean = dyn_cast<BoolAttr>(base))
    number = boolean.getValue();
  else
    number = cast<IntegerAttr>(base).getValue().getSExtValue();
  b.to(op.getExponent(), [&] {
    Value g = b.gradient(), slope = b.mulScalar(op.getResult(), b.scalar(std::log(number)));
    if (number != 0)
      return b.mul(g, slope);
    Value flat = b.compare<GeScalarOp>(op.getExponent(), b.scalar(int64_t(0)));
    return b.mul(g, b.where(flat, b.zeroBeside(slope), slope));
  });
}

/// `self * log(other)`, which is 0 where `self` is, whatever the logarithm.
static void differentiateXlogy(XlogyOp op, Backward &b) {
  Value g = b.gradient(), self = op.getSelf(), other = op.getOther();
  b.to(self, [&] {
    Value none = b.compare<LogicalAndOp>(b.compare<EqScalarOp>(self, b.scalar(0.0)),
                                         b.compare<LeScalarOp>(other, b.scalar(0.0)));
    return b.maskedFill(b.makeLike<XlogyOp>(g, {g, other}), none, b.scalar(int64_t(0)));
  });
  b.to(other, [&] { return b.div(b.mul(g, self), other); });
}

/// A function that is constant between its steps.
template <typename OpTy> static void differentiateStep(OpTy op, Backward &b) {
  b.to(op.getSelf(), [&] { return b.zeroGradient(op.getSelf()); });
}

/// `maximum` and `minimum`: `Loses` compares `self` with `other` where it gets nothing. Ties share.
template <typename OpTy, typename SelfLoses, typename OtherLoses>
static void differentiateExtremum(OpTy op, Backward &b) {
  Value g = b.gradient(), self = op.getSelf(), other = op.getOther();
  auto share = [&](Value losing) {
    Value half = b.divScalar(g, b.scalar(int64_t(2)));
    Value shared = b.where(b.compare<EqOp>(self, other), half, g);
    return b.maskedFill(shared, losing, b.scalar(int64_t(0)));
  };
  b.to(self, [&] { return share(b.compare<SelfLoses>(self, other)); });
  b.to(other, [&] { return share(b.compare<OtherLoses>(self, other)); });
}

/// The gradient within the bounds, 0 outside of them.
static void differentiateClamp(ClampOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    Value inside;
    if (std::optional<Attribute> low = op.getMin())
      inside = b.compare<GeScalarOp>(op.getSelf(), *low);
    if (std::optional<Attribute> high = op.getMax()) {
      Value below = b.compare<LeScalarOp>(op.getSelf(), *high);
      inside = inside ? b.compare<LogicalAndOp>(inside, below) : below;
    }
    return inside ? b.keepWhere(inside, b.gradient()) : b.gradient();
  });
}

static void attachArithmetic(MLIRContext &context) {
  attachForComplex<AddOp, [](AddOp op, Backward &b) {
    b.to(op.getSelf(), b.gradient());
    b.to(op.getOther(), [&] { return b.scale(b.gradient(), b.conj(op.getAlphaAttr())); });
  }>(context);
  attachForComplex<SubOp, [](SubOp op, Backward &b) {
    b.to(op.getSelf(), b.gradient());
    b.to(op.getOther(), [&] { return b.scale(b.neg(b.gradient()), b.conj(op.getAlphaAttr())); });
  }>(context);
  attachForComplex<MulOp, [](MulOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), b.conj(op.getOther())); });
    b.to(op.getOther(), [&] { return b.mul(b.gradient(), b.conj(op.getSelf())); });
  }>(context);
  attachForComplex<DivOp, [](DivOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.div(b.gradient(), b.conj(op.getOther())); });
    b.to(op.getOther(), [&] { return divisorGradient(b, op.getSelf(), op.getOther()); });
  }>(context);
  attachForComplex<AddcmulOp, [](AddcmulOp op, Backward &b) {
    b.to(op.getSelf(), b.gradient());
    b.to(op.getTensor1(),
         [&] { return b.mul(b.gradient(), b.conj(b.scale(op.getTensor2(), op.getValueAttr()))); });
    b.to(op.getTensor2(),
         [&] { return b.mul(b.gradient(), b.conj(b.scale(op.getTensor1(), op.getValueAttr()))); });
  }>(context);
  // With a number.
  attachForComplex<AddScalarOp,
                   [](AddScalarOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  attachForComplex<SubScalarOp,
                   [](SubScalarOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  attachForComplex<RsubScalarOp, [](RsubScalarOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.scale(b.neg(b.gradient()), b.conj(op.getAlphaAttr())); });
  }>(context);
  attachForComplex<MulScalarOp, [](MulScalarOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mulScalar(b.gradient(), b.conj(op.getOther())); });
  }>(context);
  attachForComplex<DivScalarOp, [](DivScalarOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.divScalar(b.gradient(), b.conj(op.getOther())); });
  }>(context);
}

static void attachElementary(MLIRContext &context) {
  attach<PowOp, differentiateTensorPower>(context);
  attachForComplex<PowTensorScalarOp, differentiatePower>(context);
  attach<PowScalarOp, differentiateExponential>(context);
  attach<Expm1Op, [](Expm1Op op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.mul(b.gradient(), b.addScalar(op.getResult(), b.scalar(int64_t(1)))); });
  }>(context);
  attach<XlogyOp, differentiateXlogy>(context);
  attach<RemainderOp, [](RemainderOp op, Backward &b) {
    Value g = b.gradient(), self = op.getSelf(), other = op.getOther();
    b.to(self, g);
    b.to(other, [&] {
      Value quotient = b.makeLike<FloorDivideOp>(op.getResult(), {self, other});
      return b.mul(b.neg(g), quotient);
    });
  }>(context);
  attach<RemainderScalarOp,
         [](RemainderScalarOp op, Backward &b) { b.to(op.getSelf(), b.gradient()); }>(context);
  attach<FloorOp, differentiateStep<FloorOp>>(context);
  attach<CeilOp, differentiateStep<CeilOp>>(context);
  attach<RoundOp, differentiateStep<RoundOp>>(context);
  attach<TruncOp, differentiateStep<TruncOp>>(context);
  attachForComplex<SqrtOp, [](SqrtOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.div(b.gradient(), b.conj(b.mulScalar(op.getResult(), b.scalar(int64_t(2)))));
    });
  }>(context);
  attachForComplex<RsqrtOp, [](RsqrtOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.mul(b.mulScalar(b.gradient(), b.scalar(-0.5)),
                   b.conj(b.powScalar(op.getResult(), 3)));
    });
  }>(context);
  attachForComplex<ReciprocalOp, [](ReciprocalOp op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.mul(b.neg(b.gradient()), b.conj(b.mul(op.getResult(), op.getResult()))); });
  }>(context);
  attachForComplex<NegOp, [](NegOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.neg(b.gradient()); });
  }>(context);
  attachForComplex<AbsOp, [](AbsOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), b.unary<SgnOp>(op.getSelf())); });
  }>(context);
  attach<SgnOp, differentiateStep<SgnOp>>(context);
  attach<SignOp, differentiateStep<SignOp>>(context);
  attachForComplex<ExpOp, [](ExpOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), b.conj(op.getResult())); });
  }>(context);
  attachForComplex<LogOp, [](LogOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.div(b.gradient(), b.conj(op.getSelf())); });
  }>(context);
  attach<Log2Op, [](Log2Op op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.div(b.gradient(), b.mulScalar(op.getSelf(), b.scalar(std::numbers::ln2)));
    });
  }>(context);
  attach<Log1pOp, [](Log1pOp op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.div(b.gradient(), b.addScalar(op.getSelf(), b.scalar(int64_t(1)))); });
  }>(context);
  attach<ErfOp, [](ErfOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      Value bell = b.unary<ExpOp>(b.neg(b.powScalar(op.getSelf(), 2)));
      return b.mul(b.mulScalar(bell, b.scalar(2 * std::numbers::inv_sqrtpi)), b.gradient());
    });
  }>(context);
}

/// 1 / sqrt(1 - x^2)
static Value slopeOfArcsine(Value self, Backward &b) {
  return b.unary<RsqrtOp>(b.addScalar(b.mul(b.neg(self), self), b.scalar(int64_t(1))));
}

static void attachTrigonometric(MLIRContext &context) {
  attachForComplex<SinOp, [](SinOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), b.conj(b.unary<CosOp>(op.getSelf()))); });
  }>(context);
  attachForComplex<CosOp, [](CosOp op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.mul(b.gradient(), b.neg(b.conj(b.unary<SinOp>(op.getSelf())))); });
  }>(context);
  attach<TanOp, [](TanOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.mul(b.gradient(), b.addScalar(b.powScalar(op.getResult(), 2), b.scalar(int64_t(1))));
    });
  }>(context);
  attach<AsinOp, [](AsinOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), slopeOfArcsine(op.getSelf(), b)); });
  }>(context);
  attach<AcosOp, [](AcosOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.mul(b.gradient(), b.neg(slopeOfArcsine(op.getSelf(), b))); });
  }>(context);
  attach<AtanOp, [](AtanOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      Value self = op.getSelf();
      return b.div(b.gradient(), b.addScalar(b.mul(self, self), b.scalar(int64_t(1))));
    });
  }>(context);
}

static void attachSelection(MLIRContext &context) {
  attachForComplex<WhereOp, [](WhereOp op, Backward &b) {
    Value g = b.gradient();
    Value zero = b.zeroBeside(g);
    b.to(op.getSelf(), [&] { return b.where(op.getCondition(), g, zero); });
    b.to(op.getOther(), [&] { return b.where(op.getCondition(), zero, g); });
  }>(context);
  attachForComplex<MaskedFillScalarOp, [](MaskedFillScalarOp op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.maskedFill(b.gradient(), op.getMask(), b.scalar(int64_t(0))); });
  }>(context);
  attachForComplex<MaskedFillOp, [](MaskedFillOp op, Backward &b) {
    b.to(op.getSelf(),
         [&] { return b.maskedFill(b.gradient(), op.getMask(), b.scalar(int64_t(0))); });
    b.to(op.getValue(), [&] { return b.sum(b.keepWhere(op.getMask(), b.gradient())); });
  }>(context);
  attach<ClampOp, differentiateClamp>(context);
  attach<ClampMinOp, [](ClampMinOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.keepWhere(b.compare<GeScalarOp>(op.getSelf(), op.getMin()), b.gradient());
    });
  }>(context);
  attach<ClampMaxOp, [](ClampMaxOp op, Backward &b) {
    b.to(op.getSelf(), [&] {
      return b.keepWhere(b.compare<LeScalarOp>(op.getSelf(), op.getMax()), b.gradient());
    });
  }>(context);
  attach<MaximumOp, differentiateExtremum<MaximumOp, LtOp, GtOp>>(context);
  attach<MinimumOp, differentiateExtremum<MinimumOp, GtOp, LtOp>>(context);
}

void cleave::autodiff::attachPointwiseRules(MLIRContext &context) {
  attachArithmetic(context);
  attachElementary(context);
  attachTrigonometric(context);
  attachSelection(context);
}
