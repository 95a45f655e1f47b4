//===- FsdpChains.cpp - collectives of fully sharded parameters --------------===//

#include "lib/backward/FsdpChains.h"

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

static Value getViewSource(Value value) {
  auto aten = value.getDefiningOp<aten::AtenOpInterface>();
  return aten ? aten.getViewedOperand(cast<OpResult>(value).getResultNumber()) : Value();
}

static bool isCopyOrCast(Operation *op) {
  return op->hasTrait<aten::CopyLike>();
}

/// A view, copy, wait or conversion: one operand, one result.
static bool isLocalTransport(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         (isa<dist::WaitOp, dist::ConvertOp, dist::ReinterpretOp>(op) || isCopyOrCast(op) ||
          getViewSource(op->getResult(0)));
}

static bool isLinear(dist::ReductionAttr reduction) {
  switch (reduction.getKind()) {
  case dist::Reduction::Sum:
  case dist::Reduction::Avg:
  case dist::Reduction::PremulSum:
    return true;
  default:
    return false;
  }
}

static bool isReduction(Operation *op) {
  if (auto reduce = dyn_cast<dist::ReduceScatterOp>(op))
    return isLinear(reduce.getReduction());
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
    return isLinear(reduce.getReduction());
  return false;
}

/// Whether result i is a linear function of operand i, and of no other data.
static bool isLinearTransport(Operation *op) {
  if (isLocalTransport(op) || isReduction(op))
    return true;
  return op->hasTrait<aten::Pointwise>() && op->getNumOperands() == 1 &&
         sharding::getShardingRule(op).findLinear([](unsigned) { return true; });
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

backward::ParameterChains::ParameterChains(func::FuncOp function) : function(function) {
  for (BlockArgument argument : function.getArguments())
    if (train::getArgumentRole(function, argument.getArgNumber()).getKind() == RoleKind::Parameter)
      gathered[argument] = false;
  for (Operation &op : function.front()) {
    bool isGather = isa<dist::AllGatherOp>(op);
    if ((!isGather && !isLocalTransport(&op)) ||
        !llvm::all_of(op.getOperands(), [&](Value v) { return gathered.contains(v); }))
      continue;
    for (Value result : op.getResults())
      gathered[result] = isGather || gathered.lookup(op.getOperand(0));
  }
}

Value backward::ParameterChains::getBase(Value value) const {
  for (Value source = getViewSource(value); source && isGathered(source);
       source = getViewSource(value))
    value = source;
  return value;
}

train::RoleAttr backward::ParameterChains::getParameter(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    unsigned result = cast<OpResult>(value).getResultNumber();
    value = op->getOperand(op->getNumOperands() == 1 ? 0 : result);
  }
  return train::getArgumentRole(function, cast<BlockArgument>(value).getArgNumber());
}

llvm::SetVector<Value> backward::ParameterChains::needed() const {
  llvm::DenseSet<Value> needs;
  for (Operation &op : const_cast<func::FuncOp &>(function).front()) {
    bool isInChain = op.getNumResults() != 0 && contains(op.getResult(0));
    if (!isInChain)
      for (Value operand : op.getOperands())
        if (isGathered(operand))
          needs.insert(getBase(operand));
  }
  llvm::SetVector<Value> ordered;
  for (Operation &op : const_cast<func::FuncOp &>(function).front())
    for (Value result : op.getResults())
      if (needs.contains(result))
        ordered.insert(result);
  return ordered;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

static unsigned getElementBits(Value value) {
  Type type = dist::valueTypeOf(value.getType());
  return dist::getElementBits(cast<RankedTensorType>(type).getElementType());
}

/// The operand that `op`'s result for a chain is a function of.
static Value getOperandBehind(Value value) {
  Operation *op = value.getDefiningOp();
  return op->getOperand(op->getNumOperands() == 1 ? 0 : cast<OpResult>(value).getResultNumber());
}

/// Values of the chain from the gradient backwards; each but the first is used by the one before
/// only. The last is what the linear ops start from.
static SmallVector<Value> walkBack(Value gradient) {
  SmallVector<Value> values{gradient};
  while (Operation *op = values.back().getDefiningOp()) {
    if (!values.back().hasOneUse() || !isLinearTransport(op))
      break;
    values.push_back(getOperandBehind(values.back()));
  }
  return values;
}

SmallVector<backward::GradientChain> backward::findGradientChains(func::FuncOp function,
                                                                  const GradientResults &results) {
  Operation *terminator = function.front().getTerminator();
  struct Walk {
    GradientChain chain;
    SmallVector<Value> values; ///< the gradient first, the start last
  };
  SmallVector<Walk> walks;
  for (unsigned result : results.parameters) {
    Walk walk;
    walk.chain.result = result;
    Value gradient = terminator->getOperand(result);
    if (auto accumulate = gradient.getDefiningOp<train::AccumulateOp>()) {
      if (!gradient.hasOneUse())
        continue;
      walk.chain.accumulate = accumulate;
      gradient = accumulate.getGradient();
    }
    walk.values = walkBack(gradient);
    walks.push_back(std::move(walk));
  }

  // An op of several gradients moves with all of them or not at all.
  for (bool hasChanged = true; hasChanged;) {
    hasChanged = false;
    llvm::DenseMap<Operation *, unsigned> covered;
    for (const Walk &walk : walks)
      for (Value value : ArrayRef(walk.values).drop_back())
        ++covered[value.getDefiningOp()];
    for (Walk &walk : walks)
      for (size_t i = 0; i + 1 < walk.values.size(); ++i)
        if (Operation *op = walk.values[i].getDefiningOp(); covered[op] != op->getNumResults()) {
          walk.values.truncate(i + 1);
          hasChanged = true;
        }
  }

  SmallVector<GradientChain> chains;
  for (Walk &walk : walks) {
    size_t end = 0; // of what moves: after the collective that comes first in the program
    for (size_t i = 0; i + 1 < walk.values.size(); ++i)
      if (isReduction(walk.values[i].getDefiningOp()))
        end = i + 1;
    if (end == 0)
      continue;
    // What is added up in the narrow type need not move: all ranks cast their own.
    unsigned sum = getElementBits(terminator->getOperand(walk.chain.result));
    while (end + 1 < walk.values.size() && isCopyOrCast(walk.values[end].getDefiningOp()) &&
           getElementBits(walk.values[end + 1]) > getElementBits(walk.values[end]) &&
           sum > getElementBits(walk.values[end]))
      ++end;
    walk.chain.start = walk.values[end];
    for (size_t i = end; i > 0; --i)
      walk.chain.ops.push_back(walk.values[i - 1].getDefiningOp());
    chains.push_back(std::move(walk.chain));
  }
  return chains;
}
