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

bool propagate::fitsBeside(RankedTensorType type, MeshAxis axis, AxisPlacement placement,
                           ArrayRef<PlacementBeside> others) {
  if (placement.isReplicate())
    return true;
  int64_t ranks = axis.size;
  bool isAlone = true;
  for (const auto &[otherAxis, other] : others) {
    if (placement.isPartial() && other.isPartial() && other.reduction != placement.reduction &&
        !(isAdded(placement) && isAdded(other)))
      return false;
    if (placement.isShard() && other.isShard(placement.dim)) {
      ranks *= otherAxis.size;
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

bool propagate::fitsBeside(const Graph &graph, const OpNode &node, MeshAxis axis,
                           const AxisStrategy &strategy, ArrayRef<StrategyBeside> others) {
  if (!strategy.inFront.empty()) {
    SmallVector<FactorCut> cuts;
    for (const auto &[otherAxis, other] : others)
      if (other->factor)
        cuts.push_back({*other->factor, otherAxis.size});
    if (!isCutInFront(sharding::getShardingRule(node.op), strategy, cuts))
      return false;
  }
  if (others.empty())
    return true;
  int64_t ranks = axis.size;
  bool isAlone = true;
  for (const auto &[otherAxis, other] : others) {
    if (strategy.factor && strategy.factor == other->factor) {
      ranks *= otherAxis.size;
      isAlone = false;
    }
    if (strategy.form && other->form) {
      if (strategy.form != other->form || !strategy.form->takesSeveralAxes())
        return false;
      continue;
    }
    // Beside a form, each rank runs the whole op, or its part of it.
    const AxisStrategy &plain = strategy.form ? *other : strategy;
    if ((strategy.form || other->form) &&
        llvm::any_of(plain.operands, [](AxisPlacement p) { return p.isPartial(); }))
      return false;
  }
  // A factor that this axis alone cuts is one that it can cut.
  if (strategy.factor && !isAlone &&
      sharding::getShardingRule(node.op).factors[*strategy.factor].size % ranks != 0)
    return false;
  auto fits = [&](unsigned value, AxisPlacement placement, auto placementOf) {
    SmallVector<PlacementBeside, 4> beside;
    for (const auto &[otherAxis, other] : others)
      beside.push_back({otherAxis, placementOf(*other)});
    return fitsBeside(graph.values[value].type(), axis, placement, beside);
  };
  for (auto [i, placement] : llvm::enumerate(strategy.operands))
    if (unsigned use = node.operands[i]; use != kNone)
      if (!fits(graph.uses[use].value, placement,
                [i = i](const AxisStrategy &other) { return other.operands[i]; }))
        return false;
  for (auto [i, placement] : llvm::enumerate(strategy.results))
    if (unsigned value = node.results[i]; value != kNone)
      if (!fits(value, placement, [i = i](const AxisStrategy &other) { return other.results[i]; }))
        return false;
  return true;
}

bool Compatibility::fits(const ValueNode &value, AxisPlacement placement) const {
  unsigned number = &value - graph.values.data();
  SmallVector<PlacementBeside, 4> others;
  for (const AxisSolution &solution : earlier)
    others.push_back({solution.axis, solution.made[number]});
  return fitsBeside(value.type(), axis, placement, others);
}

bool Compatibility::fits(unsigned op, const AxisStrategy &strategy) const {
  SmallVector<StrategyBeside, 4> others;
  for (const AxisSolution &solution : earlier)
    others.push_back({solution.axis, &solution.strategies[op]});
  return fitsBeside(graph, graph.ops[op], axis, strategy, others);
}
