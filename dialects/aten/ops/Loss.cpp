//===- Loss.cpp - losses and their gradients ------------------------------===//

#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Loss.cpp.inc"

void cleave::aten::addLossOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Loss.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Negative log likelihood
//===----------------------------------------------------------------------===//

/// Constraints 1 to 3, which forward and backward share; gives the shape of the loss.
static FailureOr<Shape> verifyNll(Operation *op, Value self, Value target, Value weight,
                                  int64_t reduction, bool ofPixels = false) {
  // 1.
  if (failed(expectFloating(op, "self", self)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(self);
  if (ofPixels ? shape.size() != 4 : shape.size() != 1 && shape.size() != 2)
    return op->emitOpError("expects `self` of ")
           << (ofPixels ? "four" : "one or two") << " dimensions, found " << self.getType();
  unsigned classes = shape.size() == 1 ? 0 : 1;
  Shape examples(shape);
  examples.erase(examples.begin() + classes);
  if (failed(expectShape(op, "target", target, examples)))
    return failure();
  Type indices = dtypeOf(target);
  if (!indices.isSignlessInteger(64) && (ofPixels || !indices.isUnsignedInteger(8)))
    return op->emitOpError("expects `target` to have dtype ")
           << (ofPixels ? "i64" : "i64 or ui8") << ", found " << target.getType();
  // 2.
  if (weight && (failed(expectShape(op, "weight", weight, shape[classes])) ||
                 failed(expectSameDType(op, "weight", weight, "self", self))))
    return failure();
  // 3.
  if (failed(expectReduction(op, reduction)))
    return failure();
  return reduction == noReduction ? examples : Shape();
}

template <typename OpTy> static LogicalResult verifyNllForward(OpTy op, bool ofPixels) {
  // 1. to 3.
  FailureOr<Shape> shape =
      verifyNll(op, op.getSelf(), op.getTarget(), op.getWeight(), op.getReduction(), ofPixels);
  // 4.
  if (failed(shape) || failed(expectResult(op, 0, *shape, dtypeOf(op.getSelf()))))
    return failure();
  // 5.
  return expectResult(op, 1, {}, dtypeOf(op.getSelf()));
}

template <typename OpTy> static LogicalResult verifyNllBackward(OpTy op, bool ofPixels) {
  Value self = op.getSelf();
  // 1. to 3.
  FailureOr<Shape> shape =
      verifyNll(op, self, op.getTarget(), op.getWeight(), op.getReduction(), ofPixels);
  if (failed(shape))
    return failure();
  // 4.
  if (failed(expectShape(op, "grad_output", op.getGradOutput(), *shape)) ||
      failed(expectSameDType(op, "grad_output", op.getGradOutput(), "self", self)))
    return failure();
  // 5.
  if (failed(expectShape(op, "total_weight", op.getTotalWeight(), {})) ||
      failed(expectSameDType(op, "total_weight", op.getTotalWeight(), "self", self)))
    return failure();
  // 6.
  return expectResultLike(op, 0, self);
}

LogicalResult NllLossForwardOp::verify() {
  return verifyNllForward(*this, /*ofPixels=*/false);
}

LogicalResult NllLossBackwardOp::verify() {
  return verifyNllBackward(*this, /*ofPixels=*/false);
}

LogicalResult NllLoss2dForwardOp::verify() {
  return verifyNllForward(*this, /*ofPixels=*/true);
}

LogicalResult NllLoss2dBackwardOp::verify() {
  return verifyNllBackward(*this, /*ofPixels=*/true);
}

//===----------------------------------------------------------------------===//
// Margins between classes
//===----------------------------------------------------------------------===//

static bool isOneOrTwo(Attribute scalar) {
  if (auto real = dyn_cast<FloatAttr>(scalar))
    return real.getValueAsDouble() == 1 || real.getValueAsDouble() == 2;
  auto integer = dyn_cast<IntegerAttr>(scalar);
  return integer && (integer.getInt() == 1 || integer.getInt() == 2);
}

/// Constraints 1 to 3; gives the shape of the loss.
template <typename OpTy> static FailureOr<Shape> verifyMargins(OpTy op) {
  Value self = op.getSelf(), target = op.getTarget();
  // 1.
  if (failed(expectFloating(op, "self", self)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(self), targets = shapeOf(target);
  if (shape.size() != 1 && shape.size() != 2)
    return op.emitOpError("expects `self` of one or two dimensions, found ") << self.getType();
  bool isOneExample = shape.size() == 1 && targets == ArrayRef<int64_t>{1};
  if (!isOneExample && failed(expectShape(op, "target", target, shape.drop_back())))
    return failure();
  if (!dtypeOf(target).isSignlessInteger(64))
    return op.emitOpError("expects `target` to have dtype i64, found ") << target.getType();
  // 2.
  if (Value weight = op.getWeight())
    if (failed(expectShape(op, "weight", weight, shape.take_back())) ||
        failed(expectSameDType(op, "weight", weight, "self", self)))
      return failure();
  // 3.
  Attribute p = op.getPAttr();
  if (p && !isOneOrTwo(p))
    return op.emitOpError("expects `p` to be 1 or 2, found ") << p;
  int64_t reduction = op.getReduction().value_or(meanReduction);
  if (failed(expectReduction(op, reduction)))
    return failure();
  return reduction == noReduction ? Shape(targets) : Shape();
}

LogicalResult MultiMarginLossOp::verify() {
  // 1. to 3.
  FailureOr<Shape> shape = verifyMargins(*this);
  if (failed(shape))
    return failure();
  // 4.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

LogicalResult MultiMarginLossBackwardOp::verify() {
  // 1. to 3.
  FailureOr<Shape> shape = verifyMargins(*this);
  // 4.
  if (failed(shape) || failed(expectShape(*this, "grad_output", getGradOutput(), *shape)) ||
      failed(expectSameDType(*this, "grad_output", getGradOutput(), "self", getSelf())))
    return failure();
  // 5.
  return expectResultLike(*this, 0, getSelf());
}

//===----------------------------------------------------------------------===//
// Squared error
//===----------------------------------------------------------------------===//

/// A loss of elements that broadcast against each other.
static LogicalResult verifyElementLoss(Operation *op, std::optional<int64_t> given) {
  // 1.
  int64_t reduction = given.value_or(meanReduction);
  if (failed(expectReduction(op, reduction)))
    return failure();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(op, op->getOperands());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(op, 0, reduction == noReduction ? *shape : Shape(),
                      resultType(op->getOperands()));
}

static LogicalResult verifyElementLossBackward(Operation *op, Value self,
                                               std::optional<int64_t> reduction) {
  // 1.
  if (failed(expectReduction(op, reduction.value_or(meanReduction))))
    return failure();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(op, op->getOperands());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(op, 0, *shape, dtypeOf(self));
}

LogicalResult MseLossOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

LogicalResult MseLossBackwardOp::verify() {
  return verifyElementLossBackward(*this, getSelf(), getReduction());
}

//===----------------------------------------------------------------------===//
// Other distances, element by element
//===----------------------------------------------------------------------===//

LogicalResult HuberLossOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

LogicalResult HuberLossBackwardOp::verify() {
  return verifyElementLossBackward(*this, getSelf(), getReduction());
}

LogicalResult SmoothL1LossOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

LogicalResult SmoothL1LossBackwardOp::verify() {
  return verifyElementLossBackward(*this, getSelf(), getReduction());
}

LogicalResult SoftMarginLossOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

LogicalResult SoftMarginLossBackwardOp::verify() {
  return verifyElementLossBackward(*this, getSelf(), getReduction());
}

LogicalResult BinaryCrossEntropyOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

LogicalResult BinaryCrossEntropyBackwardOp::verify() {
  return verifyElementLossBackward(*this, getSelf(), getReduction());
}

LogicalResult BinaryCrossEntropyWithLogitsOp::verify() {
  return verifyElementLoss(*this, getReduction());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Classes of `self` (C, or the second dimension) and examples, of which `target` has the
/// dimensions too.
static TensorFactors exampleFactors(RuleBuilder &rule,
                                    FactorReduction reduction = FactorReduction::Sum) {
  unsigned self = *rule.operand("self"), target = *rule.operand("target");
  ArrayRef<int64_t> shape = rule.operandShape(self);
  unsigned classes = shape.size() == 1 ? 0 : 1;
  FactorId c = rule.whole(shape[classes], "a target may be any class");
  rule.operandDim(self, classes, c);
  if (std::optional<unsigned> at = rule.operand("weight"))
    rule.operandDim(*at, 0, c);
  TensorFactors examples;
  for (unsigned at = 0; at < shape.size(); ++at) {
    if (at == classes)
      continue;
    FactorId factor = rule.factor(shape[at], reduction);
    rule.operandDim(self, at, factor);
    rule.operandDim(target, examples.size(), factor);
    examples.push_back({factor});
  }
  return examples;
}

template <typename OpTy> static void nllSharding(OpTy op, RuleBuilder &rule) {
  for (auto [at, dim] : llvm::enumerate(exampleFactors(rule)))
    if (op.getReduction() == noReduction)
      rule.resultDim(0, at, dim);
    // Targets may be ignored, so that parts of the batch count differently.
    else if (op.getReduction() == meanReduction)
      rule.makeWhole(
          dim[0],
          "the mean divides by the weight of the whole batch; take the sum (reduction = 2), "
          "reduce it and `total_weight`, then divide");
}

/// The gradient has the dimensions of `self`, and `grad_output` those of the loss.
static void scoreGradientSharding(RuleBuilder &rule, const TensorFactors &examples,
                                  bool isReduced) {
  unsigned self = *rule.operand("self");
  for (auto [at, dim] : llvm::enumerate(TensorFactors(rule.get().operands[self])))
    rule.resultDim(0, at, dim);
  if (!isReduced)
    for (auto [at, dim] : llvm::enumerate(examples))
      rule.operandDim(*rule.operand("grad_output"), at, dim);
}

template <typename OpTy> static void nllBackwardSharding(OpTy op, RuleBuilder &rule) {
  TensorFactors examples = exampleFactors(rule);
  rule.shapeOnly(*rule.operand("self"));
  // The mean divides by it. It is that of the whole batch, so a part needs nothing of the others.
  if (op.getReduction() != meanReduction)
    rule.shapeOnly(*rule.operand("total_weight"));
  scoreGradientSharding(rule, examples, op.getReduction() != noReduction);
}

void NllLossForwardOp::describeSharding(RuleBuilder &rule) {
  nllSharding(*this, rule);
}

void NllLossBackwardOp::describeSharding(RuleBuilder &rule) {
  nllBackwardSharding(*this, rule);
}

void NllLoss2dForwardOp::describeSharding(RuleBuilder &rule) {
  nllSharding(*this, rule);
}

void NllLoss2dBackwardOp::describeSharding(RuleBuilder &rule) {
  nllBackwardSharding(*this, rule);
}

void MultiMarginLossOp::describeSharding(RuleBuilder &rule) {
  int64_t reduction = getReduction().value_or(meanReduction);
  TensorFactors examples = exampleFactors(rule, reduction == meanReduction ? FactorReduction::Avg
                                                                           : FactorReduction::Sum);
  if (reduction == noReduction)
    for (auto [at, dim] : llvm::enumerate(examples))
      rule.resultDim(0, at, dim);
}

void MultiMarginLossBackwardOp::describeSharding(RuleBuilder &rule) {
  int64_t reduction = getReduction().value_or(meanReduction);
  TensorFactors examples = exampleFactors(rule);
  scoreGradientSharding(rule, examples, reduction != noReduction);
  if (reduction == meanReduction)
    for (const DimFactors &dim : examples)
      rule.makeWhole(dim[0],
                     "the mean divides by the number of examples; use reduction = 2 and divide");
}

static void elementLossSharding(RuleBuilder &rule, std::optional<int64_t> given) {
  int64_t reduction = given.value_or(meanReduction);
  Shape shape;
  for (unsigned i = 0; i < rule.get().operands.size(); ++i)
    shape = *broadcastShapes(shape, rule.operandShape(i));
  TensorFactors dims;
  for (int64_t size : shape)
    dims.push_back({rule.factor(size, reduction == meanReduction ? FactorReduction::Avg
                                                                 : FactorReduction::Sum)});
  for (unsigned i = 0; i < rule.get().operands.size(); ++i)
    rule.broadcastOperand(i, dims);
  if (reduction == noReduction)
    for (auto [at, dim] : llvm::enumerate(dims))
      rule.resultDim(0, at, dim);
}

static void elementLossBackwardSharding(RuleBuilder &rule, std::optional<int64_t> reduction) {
  rule.pointwise();
  if (reduction.value_or(meanReduction) == meanReduction)
    for (FactorId i = 0; i < rule.get().factors.size(); ++i)
      rule.makeWhole(
          i, "the mean divides by the number of all elements; use reduction = 2 and divide");
}

void MseLossOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}

void MseLossBackwardOp::describeSharding(RuleBuilder &rule) {
  elementLossBackwardSharding(rule, getReduction());
}

void HuberLossOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}

void HuberLossBackwardOp::describeSharding(RuleBuilder &rule) {
  elementLossBackwardSharding(rule, getReduction());
}

void SmoothL1LossOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}

void SmoothL1LossBackwardOp::describeSharding(RuleBuilder &rule) {
  elementLossBackwardSharding(rule, getReduction());
}

void SoftMarginLossOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}

void SoftMarginLossBackwardOp::describeSharding(RuleBuilder &rule) {
  elementLossBackwardSharding(rule, getReduction());
}

void BinaryCrossEntropyOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}

void BinaryCrossEntropyBackwardOp::describeSharding(RuleBuilder &rule) {
  elementLossBackwardSharding(rule, getReduction());
}

void BinaryCrossEntropyWithLogitsOp::describeSharding(RuleBuilder &rule) {
  elementLossSharding(rule, getReduction());
}
