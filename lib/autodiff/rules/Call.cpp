//===- Call.cpp - operators without a typed op have no derivative -------------===//

#include "dialects/aten/ops/Call.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

static LogicalResult refuseCall(CallOp op, Backward &b) {
  return b.refuse("for the operator \"" + op.getCallee() +
                  "\", and a gradient must flow through it");
}

void cleave::autodiff::attachCallRules(MLIRContext &context) {
  attach<CallOp, refuseCall>(context);
}
