//===- InPlace.cpp - ops that may write over what they read -------------------===//

#include "lib/memory/InPlace.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"

using namespace mlir;
using namespace cleave;

bool cleave::exec::mayOverwrite(Operation *op, unsigned operand) {
  if (op->getNumResults() != 1 || dist::erasePlacement(op->getOperand(operand).getType()) !=
                                      dist::erasePlacement(op->getResult(0).getType()))
    return false;
  auto launch = dyn_cast<LaunchOp>(op);
  if (!launch)
    return op->hasTrait<aten::PointwiseOut>();
  // A kernel of pointwise ops that gives as many elements as it reads of the operand reads each in
  // its place; with one result, nothing is read after its place has been written.
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  return kernel && llvm::all_of(kernel.getBody().front().without_terminator(),
                                [](Operation &each) { return each.hasTrait<aten::Pointwise>(); });
}
