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
