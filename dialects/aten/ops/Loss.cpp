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
                                  int64_t reduction) {
  // 1.
  if (failed(expectFloating(op, "self", self)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(self);
  if (shape.size() != 1 && shape.size() != 2)
    return op->emitOpError("expects `self` of one or two dimensions, found ") << self.getType();
  if (failed(expectShape(op, "target", target, shape.drop_back())))
    return failure();
  Type indices = dtypeOf(target);
  if (!indices.isSignlessInteger(64) && !indices.isUnsignedInteger(8))
    return op->emitOpError("expects `target` to hold i64 or ui8, found ") << target.getType();
  // 2.
  if (weight && (failed(expectShape(op, "weight", weight, shape.take_back())) ||
                 failed(expectSameDType(op, "weight", weight, "self", self))))
    return failure();
  // 3.
  if (failed(expectReduction(op, reduction)))
    return failure();
  return reduction == 0 ? Shape(shape.drop_back()) : Shape();
}

LogicalResult NllLossForwardOp::verify() {
  // 1. to 3.
  FailureOr<Shape> shape = verifyNll(*this, getSelf(), getTarget(), getWeight(), getReduction());
  // 4.
  if (failed(shape) || failed(expectResult(*this, 0, *shape, dtypeOf(getSelf()))))
    return failure();
  // 5.
  return expectResult(*this, 1, {}, dtypeOf(getSelf()));
}

LogicalResult NllLossBackwardOp::verify() {
  // 1. to 3.
  FailureOr<Shape> shape = verifyNll(*this, getSelf(), getTarget(), getWeight(), getReduction());
  if (failed(shape))
    return failure();
  // 4.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), *shape)) ||
      failed(expectSameDType(*this, "grad_output", getGradOutput(), "self", getSelf())))
    return failure();
  // 5.
  if (failed(expectShape(*this, "total_weight", getTotalWeight(), {})) ||
      failed(expectSameDType(*this, "total_weight", getTotalWeight(), "self", getSelf())))
    return failure();
  // 6.
  return expectResultLike(*this, 0, getSelf());
}

//===----------------------------------------------------------------------===//
// Squared error
//===----------------------------------------------------------------------===//

/// A loss of elements that broadcast against each other.
static LogicalResult verifyElementLoss(Operation *op, std::optional<int64_t> given) {
  // 1.
  int64_t reduction = given.value_or(1);
  if (failed(expectReduction(op, reduction)))
    return failure();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(op, op->getOperands());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(op, 0, reduction == 0 ? *shape : Shape(), resultType(op->getOperands()));
}

static LogicalResult verifyElementLossBackward(Operation *op, Value self,
                                               std::optional<int64_t> reduction) {
  // 1.
  if (failed(expectReduction(op, reduction.value_or(1))))
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

// Values of `reduction`.
enum : int64_t { noReduction = 0, meanReduction = 1, sumReduction = 2 };

/// Examples and classes of `self` (N x C or C) and `target` (N or none).
static std::optional<FactorId> exampleFactors(RuleBuilder &rule, StringRef weight) {
  unsigned self = *rule.operand("self"), target = *rule.operand("target");
  ArrayRef<int64_t> shape = rule.operandShape(self);
  FactorId c = rule.whole(shape.back(), "a target may name any class");
  rule.operandDim(self, shape.size() - 1, c);
  if (std::optional<unsigned> at = rule.operand(weight))
    rule.operandDim(*at, 0, c);
  if (shape.size() == 1)
    return std::nullopt;
  FactorId n = rule.factor(shape[0], Reduction::Sum);
  rule.operandDim(self, 0, n);
  rule.operandDim(target, 0, n);
  return n;
}

void NllLossForwardOp::describeSharding(RuleBuilder &rule) {
  std::optional<FactorId> n = exampleFactors(rule, "weight");
  if (!n)
    return;
  if (getReduction() == noReduction)
    rule.resultDim(0, 0, *n);
  // Targets may be ignored, so that parts of the batch count differently.
  else if (getReduction() == meanReduction)
    rule.makeWhole(
        *n, "the mean divides by the weight of the whole batch; take the sum (reduction = 2), "
            "reduce it and `total_weight`, then divide");
}

void NllLossBackwardOp::describeSharding(RuleBuilder &rule) {
  std::optional<FactorId> n = exampleFactors(rule, "weight");
  rule.shapeOnly(*rule.operand("self"));
  // The mean divides by it. It is that of the whole batch, so a part needs nothing of the others.
  if (getReduction() != meanReduction)
    rule.shapeOnly(*rule.operand("total_weight"));
  rule.resultDim(0, rankOf(getSelf()) - 1, rule.get().operands[*rule.operand("self")].back());
  if (!n)
    return;
  rule.resultDim(0, 0, *n);
  if (getReduction() == noReduction)
    rule.operandDim(0, 0, *n);
}

static void elementLossSharding(RuleBuilder &rule, std::optional<int64_t> given) {
  int64_t reduction = given.value_or(meanReduction);
  Shape shape;
  for (unsigned i = 0; i < rule.get().operands.size(); ++i)
    shape = *broadcastShapes(shape, rule.operandShape(i));
  TensorFactors dims;
  for (int64_t size : shape)
    dims.push_back(
        {rule.factor(size, reduction == meanReduction ? Reduction::Avg : Reduction::Sum)});
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
          i, "the mean divides by the number of all elements; take reduction = 2 and divide");
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
