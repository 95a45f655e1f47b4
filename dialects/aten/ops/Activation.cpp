//===- Activation.cpp - activation functions and their gradients ----------===//

#include "dialects/aten/ops/Activation.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Activation.cpp.inc"

void cleave::aten::addActivationOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Activation.cpp.inc"
      >(dialect);
}

/// The constraints that `gelu` and its gradient share; `self` names what the result is like.
static LogicalResult verifyGelu(Operation *op, Value self, std::optional<StringRef> approximate) {
  // 1.
  if (failed(expectFloating(op, "self", self)))
    return failure();
  // 2.
  if (approximate && *approximate != "none" && *approximate != "tanh")
    return op->emitOpError("expects `approximate` to be \"none\" or \"tanh\", found \"")
           << *approximate << "\"";
  // 3.
  for (Value operand : op->getOperands())
    if (failed(expectShape(op, "grad_output", operand, shapeOf(self))) ||
        failed(expectSameDType(op, "grad_output", operand, "self", self)))
      return failure();
  return expectResultLike(op, 0, self);
}

LogicalResult GeluOp::verify() {
  return verifyGelu(*this, getSelf(), getApproximate());
}

LogicalResult GeluBackwardOp::verify() {
  return verifyGelu(*this, getSelf(), getApproximate());
}

//===----------------------------------------------------------------------===//
// Of several tensors, or with several results
//===----------------------------------------------------------------------===//

LogicalResult LogSigmoidForwardOp::verify() {
  // 1.
  if (failed(expectFloating(*this, "self", getSelf())))
    return failure();
  // 2.
  if (failed(expectResultLike(*this, 0, getSelf())))
    return failure();
  return expectResultLike(*this, 1, getSelf());
}

LogicalResult PreluKernelBackwardOp::verify() {
  // 1.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), shapeOf(getSelf()))))
    return failure();
  if (!broadcastsTo(shapeOf(getWeight()), shapeOf(getSelf())))
    return emitOpError("expects a `weight` that broadcasts to the shape of `self`, found ")
           << getWeight().getType() << " and " << getSelf().getType();
  // 2.
  if (failed(expectResultLike(*this, 0, getSelf())))
    return failure();
  return expectResultLike(*this, 1, getSelf());
}

/// Constraint 1 of `glu` and its gradient; gives the shape of half of `self`.
static FailureOr<Shape> gatedShape(Operation *op, Value self, int64_t dim) {
  Shape shape(shapeOf(self));
  if (failed(expectFloating(op, "self", self)))
    return failure();
  if (shape.empty())
    return op->emitOpError("expects `self` of at least one dimension, found ") << self.getType();
  FailureOr<int64_t> at = wrapDim(op, dim, shape.size());
  if (failed(at))
    return failure();
  if (shape[*at] % 2 != 0)
    return op->emitOpError("expects a dimension of even size, found ")
           << shape[*at] << " in " << self.getType();
  shape[*at] /= 2;
  return shape;
}

LogicalResult GluOp::verify() {
  // 1.
  FailureOr<Shape> shape = gatedShape(*this, getSelf(), getDim().value_or(-1));
  if (failed(shape))
    return failure();
  // 2.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

LogicalResult GluBackwardOp::verify() {
  // 1.
  FailureOr<Shape> shape = gatedShape(*this, getSelf(), getDim());
  if (failed(shape))
    return failure();
  // 2.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), *shape)) ||
      failed(expectSameDType(*this, "grad_output", getGradOutput(), "self", getSelf())))
    return failure();
  // 3.
  return expectResultLike(*this, 0, getSelf());
}

static const char *halvesReason = "its halves are multiplied with each other";

void GluOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim().value_or(-1), halvesReason);
}

void GluBackwardOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), halvesReason);
}
