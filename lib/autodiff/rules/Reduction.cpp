//===- Reduction.cpp - derivatives of sums, extrema, norms and selections -----===//

#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/DTypes.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Cumulative.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "lib/autodiff/Rules.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

Shape cleave::autodiff::dimsOrAll(std::optional<ArrayRef<int64_t>> dims, int64_t rank) {
  Shape wrapped;
  if (dims && !dims->empty()) {
    for (int64_t dim : *dims)
      wrapped.push_back(fromFront(dim, rank));
    return wrapped;
  }
  wrapped.resize(rank);
  std::iota(wrapped.begin(), wrapped.end(), 0);
  return wrapped;
}

/// A reduction's result with its dimensions back, of size 1.
static Value restoreDims(Backward &b, Value reduced, ArrayRef<int64_t> dims, bool keptDims) {
  return keptDims ? reduced : b.unsqueeze(reduced, dims);
}

/// The gradient of a sum: the same number for every element that went into it.
template <typename OpTy> static Value spread(OpTy op, Backward &b) {
  Value self = op.getSelf();
  Shape dims = dimsOrAll(op.getDim(), rankOf(self));
  Value g = restoreDims(b, b.gradient(), dims, op.getKeepdim().value_or(false));
  return b.expand(g, shapeOf(self));
}

static int64_t reducedElements(Value self, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= shapeOf(self)[dim];
  return count;
}

/// A running sum's gradient runs backwards.
static void differentiateCumsum(CumsumOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Value g = b.toType(b.gradient(), dtypeOf(self));
    if (rankOf(g) == 0 || shapeOf(g)[fromFront(op.getDim(), rankOf(g))] == 1)
      return g;
    auto flip = [&](Value value) {
      return b.makeLike<FlipOp>(value, value, b.integers("dims", op.getDim()));
    };
    return flip(b.makeLike<CumsumOp>(g, flip(g), b.integer("dim", op.getDim())));
  });
}

static void differentiateCumprod(CumprodOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Value g = b.toType(b.gradient(), dtypeOf(self));
    return b.makeLike<CumprodBackwardOp>(g, {g, self, op.getResult()},
                                         b.integer("dim", op.getDim()));
  });
}

static void differentiateVariance(VarCorrectionOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Shape dims = dimsOrAll(op.getDim(), rankOf(self));
    double correction = 1;
    if (Attribute given = op.getCorrectionAttr())
      correction = isa<FloatAttr>(given) ? cast<FloatAttr>(given).getValueAsDouble()
                                         : cast<IntegerAttr>(given).getValue().getSExtValue();
    double freedom = double(reducedElements(self, dims)) - correction;
    Value g = restoreDims(b, b.gradient(), dims, op.getKeepdim().value_or(false));
    Value mean = b.make<MeanDimOp>(reduceShape(shapeOf(self), dims, true), dtypeOf(self), self,
                                   {b.integers("dim", dims), b.boolean("keepdim", true)});
    return b.mul(b.mulScalar(g, b.scalar(2.0 / freedom)), b.sub(self, mean));
  });
}

static void differentiateLogsumexp(LogsumexpOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Shape dims = dimsOrAll(op.getDim(), rankOf(self));
    bool keptDims = op.getKeepdim().value_or(false);
    Value g = restoreDims(b, b.gradient(), dims, keptDims);
    Value result = restoreDims(b, op.getResult(), dims, keptDims);
    return b.mul(g, b.unary<ExpOp>(b.sub(self, result)));
  });
}

/// The norm of order p; where its derivative is not defined, as `norm_backward` has it.
static LogicalResult differentiateNorm(LinalgVectorNormOp op, Backward &b) {
  Value self = op.getSelf();
  Attribute order = op.getOrdAttr();
  bool isTwo = !order ||
               (isa<FloatAttr>(order) && cast<FloatAttr>(order).getValueAsDouble() == 2.0) ||
               (isa<IntegerAttr>(order) && cast<IntegerAttr>(order).getValue() == 2);
  if (isComplex(dtypeOf(self)) && !isTwo)
    return b.refuse("on complex numbers but for the norm of order 2");
  b.to(self, [&]() -> Value {
    double p = 2;
    if (Attribute ord = op.getOrdAttr())
      p = isa<FloatAttr>(ord) ? cast<FloatAttr>(ord).getValueAsDouble()
                              : cast<IntegerAttr>(ord).getValue().getSExtValue();
    Shape dims = dimsOrAll(op.getDim(), rankOf(self));
    bool keptDims = op.getKeepdim().value_or(false) || rankOf(self) == 0;
    Value g = restoreDims(b, b.gradient(), dims, keptDims);
    Value norm = restoreDims(b, op.getResult(), dims, keptDims);
    Attribute zero = b.scalar(int64_t(0));
    auto sign = [&] { return b.unary<SgnOp>(self); };
    auto zeroWhereNormIs = [&](Value value) {
      return b.maskedFill(value, b.compare<EqScalarOp>(norm, zero), zero);
    };
    if (p == 0)
      return b.zeroGradient(self);
    if (p == 1)
      return b.mul(sign(), g);
    if (p == 2)
      return b.mul(g, zeroWhereNormIs(b.div(self, norm)));
    if (std::isinf(p)) {
      Value magnitude = b.unary<AbsOp>(self);
      Value isNan = b.compare<NeOp>(magnitude, magnitude);
      Value mask = b.compare<LogicalOrOp>(b.compare<EqOp>(magnitude, norm), isNan);
      Value share = b.div(g, b.sum(mask, dims, /*keepDim=*/true));
      return b.mul(sign(), b.mul(share, mask));
    }
    Value magnitude = b.unary<AbsOp>(self);
    if (p < 1) {
      Value slope =
          b.maskedFill(b.powScalar(magnitude, p - 1), b.compare<EqScalarOp>(self, zero), zero);
      return b.mul(b.mul(b.mul(sign(), slope), g), b.powScalar(norm, 1 - p));
    }
    Value scaled = p < 2 ? b.mul(sign(), b.powScalar(magnitude, p - 1))
                         : b.mul(self, b.powScalar(magnitude, p - 2));
    return b.mul(scaled, zeroWhereNormIs(b.div(g, b.powScalar(norm, p - 1))));
  });
  return success();
}

/// The largest or smallest elements share the gradient.
template <typename OpTy> static void differentiateExtremum(OpTy op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Shape dims = dimsOrAll(op.getDim(), rankOf(self));
    bool keptDims = op.getKeepdim().value_or(false);
    Value g = restoreDims(b, b.gradient(), dims, keptDims);
    Value mask = b.compare<EqOp>(restoreDims(b, op.getResult(), dims, keptDims), self);
    return b.mul(b.div(g, b.sum(mask, dims, /*keepDim=*/true)), mask);
  });
}

/// Ops that pick elements of a dimension: the gradient goes back to where they were.
static void differentiateSelection(Backward &b, Value self, int64_t dim, Value indices,
                                   bool keptDim) {
  b.to(self, [&] {
    Value g = b.gradient();
    if (!keptDim && rankOf(self) > 0) {
      g = b.unsqueeze(g, dim);
      indices = b.unsqueeze(indices, dim);
    }
    Value zeros = b.zeroGradient(self);
    return b.makeLike<ScatterSrcOp>(zeros, {zeros, indices, g}, b.integer("dim", dim));
  });
}

void cleave::autodiff::attachReductionRules(MLIRContext &context) {
  attachForComplex<SumOp, [](SumOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.expand(b.gradient(), shapeOf(op.getSelf())); });
  }>(context);
  attachForComplex<SumDimIntListOp, [](SumDimIntListOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return spread(op, b); });
  }>(context);
  attachForComplex<MeanOp, [](MeanOp op, Backward &b) {
    Value self = op.getSelf();
    b.to(self, [&] {
      int64_t count = tensorType(self).getNumElements();
      return b.divScalar(b.expand(b.gradient(), shapeOf(self)), b.scalar(count));
    });
  }>(context);
  attachForComplex<MeanDimOp, [](MeanDimOp op, Backward &b) {
    Value self = op.getSelf();
    b.to(self, [&] {
      int64_t count = reducedElements(self, dimsOrAll(op.getDim(), rankOf(self)));
      return b.divScalar(spread(op, b), b.scalar(count));
    });
  }>(context);
  attach<CumprodOp, differentiateCumprod>(context);
  attachForComplex<CumsumOp, differentiateCumsum>(context);
  attach<VarCorrectionOp, differentiateVariance>(context);
  attach<LogsumexpOp, differentiateLogsumexp>(context);
  attachForComplex<LinalgVectorNormOp, differentiateNorm>(context);
  attach<AmaxOp, differentiateExtremum<AmaxOp>>(context);
  attach<AminOp, differentiateExtremum<AminOp>>(context);
  attach<TopkOp, [](TopkOp op, Backward &b) {
    differentiateSelection(b, op.getSelf(), op.getDim().value_or(-1), op.getIndices(), true);
  }>(context);
  attach<SortOp, [](SortOp op, Backward &b) {
    differentiateSelection(b, op.getSelf(), op.getDim().value_or(-1), op.getIndices(), true);
  }>(context);
  attach<SortStableOp, [](SortStableOp op, Backward &b) {
    differentiateSelection(b, op.getSelf(), op.getDim().value_or(-1), op.getIndices(), true);
  }>(context);
  attach<MaxDimOp, [](MaxDimOp op, Backward &b) {
    differentiateSelection(b, op.getSelf(), op.getDim(), op.getIndices(),
                           op.getKeepdim().value_or(false));
  }>(context);
}
