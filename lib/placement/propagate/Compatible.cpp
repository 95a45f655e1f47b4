//===- Compatible.cpp - what fits with the axes before ---------------------===//

#include "lib/placement/propagate/Compatible.h"
#include "lib/placement/Form.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;

static bool isAdded(AxisPlacement placement) {
  return placement.reduction == dist::Reduction::Sum || placement.reduction == dist::Reduction::Avg;
}

bool Compatibility::fits(RankedTensorType type, AxisPlacement placement,
                         llvm::function_ref<AxisPlacement(const AxisSolution &)> before) const {
  if (placement.isReplicate())
    return true;
  int64_t ranks = axis.size;
  bool isAlone = true;
  for (const AxisSolution &solution : earlier) {
    AxisPlacement other = before(solution);
    if (placement.isPartial() && other.isPartial() && other.reduction != placement.reduction &&
        !(isAdded(placement) && isAdded(other)))
      return false;
    if (placement.isShard() && other.isShard(placement.dim)) {
      ranks *= solution.axis.size;
      isAlone = false;
    }
  }
  if (!placement.isShard())
    return true;
  if (placement.dim >= type.getRank())
    return false;
  int64_t size = type.getDimSize(placement.dim);
  return isAlone ? canShard(size, axis) : size % ranks == 0;
}

bool Compatibility::fits(const ValueNode &value, AxisPlacement placement) const {
  unsigned number = &value - graph.values.data();
  return fits(value.type(), placement,
              [&](const AxisSolution &solution) { return solution.made[number]; });
}

bool Compatibility::fits(unsigned op, const AxisStrategy &strategy) const {
  const OpNode &node = graph.ops[op];
  if (!strategy.inFront.empty()) {
    SmallVector<FactorCut> cuts;
    for (const AxisSolution &solution : earlier)
      if (std::optional<sharding::FactorId> factor = solution.strategies[op].factor)
        cuts.push_back({*factor, solution.axis.size});
    if (!isCutInFront(sharding::getShardingRule(node.op), strategy, cuts))
      return false;
  }
  if (earlier.empty())
    return true;
  int64_t ranks = axis.size;
  bool isAlone = true;
  for (const AxisSolution &solution : earlier) {
    const AxisStrategy &other = solution.strategies[op];
    if (strategy.factor && strategy.factor == other.factor) {
      ranks *= solution.axis.size;
      isAlone = false;
    }
    if (strategy.form && other.form) {
      if (strategy.form != other.form || !strategy.form->takesSeveralAxes())
        return false;
      continue;
    }
    // Beside a form, each rank runs the whole op, or its part of it.
    const AxisStrategy &plain = strategy.form ? other : strategy;
    if ((strategy.form || other.form) &&
        llvm::any_of(plain.operands, [](AxisPlacement p) { return p.isPartial(); }))
      return false;
  }
  // A factor that this axis alone cuts is one that it can cut.
  if (strategy.factor && !isAlone &&
      sharding::getShardingRule(node.op).factors[*strategy.factor].size % ranks != 0)
    return false;
  for (auto [i, placement] : llvm::enumerate(strategy.operands))
    if (unsigned use = node.operands[i]; use != kNone)
      if (!fits(graph.values[graph.uses[use].value].type(), placement,
                [&](const AxisSolution &solution) { return solution.taken[use]; }))
        return false;
  for (auto [i, placement] : llvm::enumerate(strategy.results))
    if (unsigned value = node.results[i]; value != kNone)
      if (!fits(graph.values[value], placement))
        return false;
  return true;
}
