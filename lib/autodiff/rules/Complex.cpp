//===- Complex.cpp - derivatives of complex numbers and Fourier transforms ----===//

#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Part.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// `self` in memory of its own, where its strides may not be those of pairs.
static Value contiguous(Backward &b, Value self) {
  return b.makeLike<CloneOp>(self, self, b.string("memory_format", "contiguous_format"));
}

/// As `polar_backward`.
static void differentiatePolar(PolarOp op, Backward &b) {
  Value g = b.conj(b.gradient()), result = op.getResult();
  b.to(op.getAbs(), [&] { return b.part(b.mul(g, b.unary<SgnOp>(result)), 0); });
  b.to(op.getAngle(), [&] {
    FloatAttr zero = cast<FloatAttr>(b.scalar(0.0)), one = cast<FloatAttr>(b.scalar(1.0));
    Value turned = b.mulScalar(result, ComplexAttr::get(op.getContext(), zero, one));
    return b.part(b.mul(g, turned), 0);
  });
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// A transform with the dimensions and the normalization of `op`.
template <typename To, typename OpTy>
static Value transform(OpTy op, Backward &b, Value value, ArrayRef<int64_t> shape, Type dtype,
                       StringRef flag, bool isSet) {
  return b.make<To>(shape, dtype, value,
                    {b.integers("dim", op.getDim()),
                     b.integer("normalization", op.getNormalization()), b.boolean(flag, isSet)});
}

static void differentiateC2c(FftC2cOp op, Backward &b) {
  b.to(op.getSelf(), [&] {
    Value g = b.gradient();
    return transform<FftC2cOp>(op, b, g, shapeOf(g), dtypeOf(g), "forward", !op.getForward());
  });
}

/// What `onesided` leaves out does not count: zeros in its place (`fft_r2c_backward`).
static void differentiateR2c(FftR2cOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Value g = b.gradient();
    int64_t last = fromFront(op.getDim().back(), rankOf(self));
    if (shapeOf(g)[last] != shapeOf(self)[last])
      g = b.make<SliceBackwardOp>(shapeOf(self), dtypeOf(g), g,
                                  {b.integers("input_sizes", shapeOf(self)), b.integer("dim", last),
                                   b.integer("start", 0), b.integer("end", shapeOf(g)[last]),
                                   b.integer("step", 1)});
    Value all = transform<FftC2cOp>(op, b, g, shapeOf(g), dtypeOf(g), "forward", false);
    return b.part(all, 0);
  });
}

/// What the transform takes for a number and its conjugate counts twice (`fft_c2r_backward`).
static void differentiateC2r(FftC2rOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    Value g =
        transform<FftR2cOp>(op, b, b.gradient(), shapeOf(self), dtypeOf(self), "onesided", true);
    int64_t last = fromFront(op.getDim().back(), rankOf(self));
    int64_t twice = op.getLastDimSize() - shapeOf(self)[last];
    if (twice <= 0)
      return g;
    Value doubled = b.mulScalar(b.slice(g, last, 1, 1 + twice), b.scalar(int64_t(2)));
    return b.makeLike<SliceScatterOp>(
        g, {g, doubled},
        {b.integer("dim", last), b.integer("start", 1), b.integer("end", 1 + twice)});
  });
}

void cleave::autodiff::attachComplexRules(MLIRContext &context) {
  attachForComplex<ViewAsComplexOp, [](ViewAsComplexOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.viewAsReal(b.gradient()); });
  }>(context);
  attachForComplex<ViewAsRealOp, [](ViewAsRealOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.viewAsComplex(contiguous(b, b.gradient())); });
  }>(context);
  attachForComplex<ComplexOp, [](ComplexOp op, Backward &b) {
    b.to(op.getReal(), [&] { return b.part(b.gradient(), 0); });
    b.to(op.getImag(), [&] { return b.part(b.gradient(), 1); });
  }>(context);
  attachForComplex<PolarOp, differentiatePolar>(context);
  attachForComplex<ConjPhysicalOp, [](ConjPhysicalOp op, Backward &b) {
    b.to(op.getSelf(), [&] { return b.conj(b.gradient()); });
  }>(context);
  attachForComplex<FftC2cOp, differentiateC2c>(context);
  attachForComplex<FftR2cOp, differentiateR2c>(context);
  attachForComplex<FftC2rOp, differentiateC2r>(context);
}
