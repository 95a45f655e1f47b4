//===- Activity.cpp - which values carry a gradient ---------------------------===//

#include "lib/autodiff/Activity.h"
#include "dialects/derivative/DerivativeInterface.h"
#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave;

bool autodiff::isDifferentiable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(type));
  return tensor && isa<FloatType, ComplexType>(tensor.getElementType());
}

llvm::DenseSet<Value> autodiff::findVaried(func::FuncOp function, ArrayRef<BlockArgument> sources) {
  llvm::DenseSet<Value> varied;
  for (BlockArgument source : sources)
    varied.insert(source);
  for (Operation &op : function.front().without_terminator()) {
    // What is received may depend on anything.
    if (!isa<dist::ReceiveOp>(op) &&
        llvm::none_of(op.getOperands(), [&](Value value) { return varied.contains(value); }))
      continue;
    auto derivative = dyn_cast<DerivativeInterface>(op);
    for (OpResult result : op.getResults())
      if (isDifferentiable(result.getType()) &&
          (!derivative || derivative.carriesGradient(result.getResultNumber())))
        varied.insert(result);
  }
  return varied;
}

BlockArgument autodiff::findSource(Value value, const llvm::DenseSet<Value> &varied) {
  while (Operation *op = value.getDefiningOp()) {
    auto next =
        llvm::find_if(op->getOperands(), [&](Value operand) { return varied.contains(operand); });
    if (next == op->operand_end())
      return {};
    value = *next;
  }
  return cast<BlockArgument>(value);
}
