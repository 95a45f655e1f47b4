//===- Softmax.cpp - softmax, its logarithm and their gradients -----------===//

#include "dialects/aten/ops/Softmax.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Softmax.cpp.inc"

void cleave::aten::addSoftmaxOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Softmax.cpp.inc"
      >(dialect);
}

static LogicalResult verifyForward(Operation *op, Value self, int64_t dim, bool halfToFloat) {
  // 1.
  Type dtype = dtypeOf(self);
  if (failed(expectFloating(op, "self", self)))
    return failure();
  if (halfToFloat && !dtype.isF16())
    return op->emitOpError("expects `self` of dtype f16 where `half_to_float` holds, found ")
           << self.getType();
  // 2.
  if (failed(wrapDim(op, dim, rankOf(self))))
    return failure();
  // 3.
  return expectResult(op, 0, shapeOf(self),
                      halfToFloat ? Type(Float32Type::get(op->getContext())) : dtype);
}

LogicalResult SoftmaxOp::verify() {
  return verifyForward(*this, getSelf(), getDim(), getHalfToFloat());
}

LogicalResult LogSoftmaxOp::verify() {
  return verifyForward(*this, getSelf(), getDim(), getHalfToFloat());
}

static LogicalResult verifyBackward(Operation *op, Value gradOutput, Value output, int64_t dim,
                                    Type inputDType) {
  // 1.
  if (failed(expectFloating(op, "output", output)) ||
      failed(expectShape(op, "grad_output", gradOutput, shapeOf(output))) ||
      failed(expectSameDType(op, "grad_output", gradOutput, "output", output)))
    return failure();
  // 2.
  if (failed(wrapDim(op, dim, rankOf(output))))
    return failure();
  // 3.
  if (failed(expectDType(op, inputDType, "input_dtype")))
    return failure();
  return expectResult(op, 0, shapeOf(output), inputDType);
}

LogicalResult SoftmaxBackwardDataOp::verify() {
  return verifyBackward(*this, getGradOutput(), getOutput(), getDim(), getInputDtype());
}

LogicalResult LogSoftmaxBackwardDataOp::verify() {
  return verifyBackward(*this, getGradOutput(), getOutput(), getDim(), getInputDtype());
}

LogicalResult SafeSoftmaxOp::verify() {
  // 1.
  Type dtype = getDtype().value_or(dtypeOf(getSelf()));
  if (failed(expectFloating(*this, "self", getSelf())))
    return failure();
  if (!isFloating(dtype))
    return emitOpError("expects a floating-point `dtype`, found ") << dtype;
  // 2.
  if (failed(wrapDim(*this, getDim(), rankOf(getSelf()))))
    return failure();
  // 3.
  return expectResult(*this, 0, shapeOf(getSelf()), dtype);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static const char *sumReason = "each element is divided by the sum over all of it";

void SoftmaxOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), sumReason);
}

void LogSoftmaxOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), sumReason);
}

void SoftmaxBackwardDataOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), sumReason);
}

void LogSoftmaxBackwardDataOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), sumReason);
}

void SafeSoftmaxOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), sumReason);
}
