//===- Comparison.cpp - comparisons, logic and selection ------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Comparison.cpp.inc"

void cleave::aten::addComparisonOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Comparison.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

static LogicalResult expectIntegers(Operation *op) {
  for (Value operand : op->getOperands())
    if (isDifferentiable(dtypeOf(operand)))
      return op->emitOpError("expects integers or bool, found ") << operand.getType();
  return success();
}

static LogicalResult verifyBitwise(Operation *op) {
  // 1.
  if (failed(expectIntegers(op)))
    return failure();
  // 2. and 3.
  return verifyPointwise(op, DTypeRule::Promoted);
}

LogicalResult BitwiseAndOp::verify() {
  return verifyBitwise(*this);
}

LogicalResult BitwiseOrOp::verify() {
  return verifyBitwise(*this);
}

LogicalResult BitwiseNotOp::verify() {
  return verifyBitwise(*this);
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

LogicalResult WhereOp::verify() {
  // 1.
  Type condition = dtypeOf(getCondition());
  if (!isBool(condition) && !condition.isUnsignedInteger(8))
    return emitOpError("expects `condition` of dtype i1 or ui8, found ")
           << getCondition().getType();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(*this, getOperands());
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(*this, 0, *shape, resultType({getSelf(), getOther()}));
}

static LogicalResult verifyMaskedFill(Operation *op, Value self, Value mask) {
  // 1.
  if (!isBool(dtypeOf(mask)))
    return op->emitOpError("expects `mask` of dtype i1, found ") << mask.getType();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(op, {self, mask});
  if (failed(shape))
    return failure();
  // 3.
  return expectResult(op, 0, *shape, dtypeOf(self));
}

LogicalResult MaskedFillScalarOp::verify() {
  return verifyMaskedFill(*this, getSelf(), getMask());
}

LogicalResult MaskedFillOp::verify() {
  if (failed(verifyMaskedFill(*this, getSelf(), getMask())))
    return failure();
  // 4.
  return expectRank(*this, "value", getValue(), 0);
}
