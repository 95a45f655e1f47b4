//===- Random.cpp - random numbers, and the gradient of dropout -----------===//

#include "dialects/aten/ops/Random.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Random.cpp.inc"

void cleave::aten::addRandomOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Random.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Draws
//===----------------------------------------------------------------------===//

/// Constraints 1 and 2 of all random ops.
static LogicalResult verifyPlace(Operation *op, Value seed, Value offset, int64_t position) {
  // 1.
  for (auto [name, value] : {std::pair(StringRef("seed"), seed), {StringRef("offset"), offset}})
    if (rankOf(value) != 0 || !dtypeOf(value).isSignlessInteger(64))
      return op->emitOpError("expects `")
             << name << "` of type tensor<i64>, found " << value.getType();
  // 2.
  if (position < 0)
    return op->emitOpError("expects a non-negative `position`, found ") << position;
  return success();
}

static LogicalResult expectProbability(Operation *op, const APFloat &p) {
  double value = p.convertToDouble();
  if (value >= 0 && value <= 1)
    return success();
  return op->emitOpError("expects `p` in [0, 1], found ") << value;
}

LogicalResult RngNativeDropoutOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (failed(expectFloating(*this, "input", getInput())) ||
      failed(expectProbability(*this, getP())))
    return failure();
  // 4.
  if (failed(expectResultLike(*this, 0, getInput())))
    return failure();
  return expectResult(*this, 1, shapeOf(getInput()), IntegerType::get(getContext(), 1));
}

LogicalResult RngBernoulliOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (std::optional<APFloat> p = getP(); p && failed(expectProbability(*this, *p)))
    return failure();
  if (!getP() && failed(expectFloating(*this, "like", getLike())))
    return failure();
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngUniformOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (failed(expectFloating(*this, "like", getLike())))
    return failure();
  double from = getFrom().convertToDouble(), to = getTo().convertToDouble();
  if (!(from <= to))
    return emitOpError("expects `from` not above `to`, found ") << from << " and " << to;
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngNormalOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (failed(expectFloating(*this, "like", getLike())))
    return failure();
  double deviation = getStd().convertToDouble();
  if (!(deviation >= 0))
    return emitOpError("expects a non-negative `std`, found ") << deviation;
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngExponentialOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (failed(expectFloating(*this, "like", getLike())))
    return failure();
  double rate = getLambd().convertToDouble();
  if (!(rate > 0))
    return emitOpError("expects `lambd` above 0, found ") << rate;
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngRandintOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (getLow() >= getHigh())
    return emitOpError("expects `low` below `high`, found ") << getLow() << " and " << getHigh();
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngRandpermOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (rankOf(getLike()) != 1)
    return emitOpError("expects `like` of one dimension, found ") << getLike().getType();
  // 4.
  return expectResultLike(*this, 0, getLike());
}

LogicalResult RngMultinomialOp::verify() {
  // 1. and 2.
  if (failed(verifyPlace(*this, getSeed(), getOffset(), getPosition())))
    return failure();
  // 3.
  if (failed(expectFloating(*this, "probabilities", getProbabilities())))
    return failure();
  Shape shape(shapeOf(getProbabilities()));
  if (shape.empty() || shape.size() > 2)
    return emitOpError("expects `probabilities` of one or two dimensions, found ")
           << getProbabilities().getType();
  // 4.
  int64_t samples = getNumSamples();
  if (samples <= 0)
    return emitOpError("expects `num_samples` above 0, found ") << samples;
  if (!getReplacement() && samples > shape.back())
    return emitOpError("expects `num_samples` of at most ")
           << shape.back() << ", the weights of a row, without `replacement`, found " << samples;
  // 5.
  shape.back() = samples;
  return expectResult(*this, 0, shape, IntegerType::get(getContext(), 64));
}

void RngMultinomialOp::describeSharding(RuleBuilder &rule) {
  rule.kind(sharding::OpKind::Random);
  if (rankOf(getProbabilities()) == 2)
    rule.keep(0, 0, 0, 0);
  rule.closeWhole("a sample is drawn from the whole row");
}

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

LogicalResult NativeDropoutBackwardOp::verify() {
  // 1.
  if (failed(expectShape(*this, "mask", getMask(), shapeOf(getGradOutput()))))
    return failure();
  if (!isBool(dtypeOf(getMask())))
    return emitOpError("expects `mask` of dtype i1, found ") << getMask().getType();
  // 2.
  return expectResultLike(*this, 0, getGradOutput());
}
