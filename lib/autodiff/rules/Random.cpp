//===- Random.cpp - derivative of dropout; other random numbers have none -----===//

#include "dialects/aten/ops/Random.h"
#include "lib/autodiff/Rules.h"

#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// 1 / (1 - p) as eager mode computes it, in the dtype of the operand: f16 and bf16 divide in f32
/// and round (docs/random.md).
static double dropoutScale(double p, Type dtype) {
  double keep = 1 - p;
  if (dtype.isF64())
    return 1.0 / keep;
  llvm::APFloat scale(1.0f / float(keep));
  bool losesInfo;
  scale.convert(cast<FloatType>(dtype).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  scale.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return scale.convertToDouble();
}

static void differentiateDropout(RngNativeDropoutOp op, Backward &b) {
  double p = op.getP().convertToDouble();
  b.to(op.getInput(), [&] {
    Value g = b.gradient();
    if (!op.getTrain().value_or(true))
      return g;
    return b.makeLike<NativeDropoutBackwardOp>(
        g, {g, op.getMask()}, b.number("scale", p == 1 ? 0.0 : dropoutScale(p, dtypeOf(g))));
  });
}

void cleave::autodiff::attachRandomRules(MLIRContext &context) {
  attach<RngNativeDropoutOp, differentiateDropout>(context);
  attachCut<RngBernoulliOp, RngUniformOp, RngNormalOp, RngExponentialOp, RngRandintOp,
            RngRandpermOp, RngMultinomialOp>(context);
}
