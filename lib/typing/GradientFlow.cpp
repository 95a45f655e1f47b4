//===- GradientFlow.cpp - which values carry a gradient ----------------------===//

#include "lib/typing/GradientFlow.h"

#include "dialects/aten/ops/View.h"
#include "dialects/dist/Dist.h"
#include "dialects/sharding/ShardingRule.h"
#include "dialects/train/Program.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

static bool isFloating(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(value.getType()));
  return tensor && isa<FloatType, ComplexType>(tensor.getElementType());
}

bool cleave::placement::holdsGradients(func::FuncOp function) {
  auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  if (phase && phase.getValue() != train::Phase::Microbatch)
    return true;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (train::RoleAttr role = train::getResultRole(function, i);
        role && role.getKind() == train::RoleKind::Gradient)
      return true;
  return function
      .walk([](Operation *op) {
        return op->hasAttr(train::kBackwardAttrName) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

GradientFlow::GradientFlow(func::FuncOp function) {
  if (holdsGradients(function))
    return;
  SmallVector<unsigned> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (train::RoleAttr role = train::getArgumentRole(function, i);
        role && role.getKind() == train::RoleKind::Parameter && !role.getFrozen())
      arguments.push_back(i);
  follow(function, arguments);
}

GradientFlow::GradientFlow(func::FuncOp function, ArrayRef<unsigned> arguments) {
  follow(function, arguments);
}

/// Whether gradients of the op's results reach its operands.
static bool isDifferentiable(Operation *op) {
  if (isa<aten::DetachOp>(op))
    return false;
  auto sharding = dyn_cast<sharding::ShardingRuleOpInterface>(op);
  return !sharding || sharding.getShardingRule().kind != sharding::OpKind::Factory;
}

void GradientFlow::follow(func::FuncOp function, ArrayRef<unsigned> arguments) {
  if (function.isExternal())
    return;
  for (unsigned argument : arguments)
    if (isFloating(function.getArgument(argument)))
      values.insert(function.getArgument(argument));
  for (Operation &op : function.getOps()) {
    bool any = llvm::any_of(op.getOperands(), [&](Value operand) { return carries(operand); });
    if (!any || !isDifferentiable(&op))
      continue;
    for (Value result : op.getResults())
      if (isFloating(result))
        values.insert(result);
  }
}
