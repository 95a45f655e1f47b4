//===- GradientSlice.cpp - what a gradient is computed from ------------------===//

#include "lib/backward/GradientSlice.h"

#include "lib/backward/OutputMask.h"

using namespace mlir;
using namespace cleave;

void backward::GradientSlice::add(Value value) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (isa<BlockArgument>(next) || (given && given->contains(next)) || !values.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!getOutputMask(op))
      values.insert(op->result_begin(), op->result_end());
    llvm::append_range(worklist, op->getOperands());
  }
}
