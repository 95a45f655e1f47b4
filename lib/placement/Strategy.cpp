//===- Strategy.cpp - strategies from sharding rules, and those of forms ---===//

#include "lib/placement/Strategy.h"
#include "dialects/dist/Chunks.h"
#include "dialects/dist/Placed.h"
#include "lib/placement/Form.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::FactorId;
using sharding::LinearGroup;
using sharding::OpKind;
using sharding::ShardingRule;
using sharding::TensorFactors;

static dist::Reduction toDist(sharding::FactorReduction reduction) {
  switch (reduction) {
  case sharding::FactorReduction::Avg:
    return dist::Reduction::Avg;
  case sharding::FactorReduction::Max:
    return dist::Reduction::Max;
  case sharding::FactorReduction::Min:
    return dist::Reduction::Min;
  case sharding::FactorReduction::Product:
    return dist::Reduction::Product;
  case sharding::FactorReduction::None:
  case sharding::FactorReduction::Sum:
    return dist::Reduction::Sum;
  }
  llvm_unreachable("all reductions are handled");
}

namespace {

/// Collects the strategies of one op.
class StrategyList {
public:
  StrategyList(Operation *op, const ShardingRule &rule, MeshAxis axis)
      : op(op), rule(rule), axis(axis) {}

  void addReplicated() { add(makeReplicated()); }
  void addShards();
  bool mayBeUneven(FactorId factor) const;
  void addPartials();
  void addForms();

  SmallVector<AxisStrategy> strategies;

private:
  AxisStrategy makeReplicated() const {
    AxisStrategy strategy;
    strategy.operands.assign(op->getNumOperands(), AxisPlacement::replicate());
    strategy.results.assign(op->getNumResults(), AxisPlacement::replicate());
    return strategy;
  }
  bool isShapeOnly(unsigned operand) const { return llvm::is_contained(rule.shapeOnly, operand); }
  std::optional<AxisStrategy> cut(FactorId factor) const;
  std::optional<unsigned> findDim(const TensorFactors &tensor, AxisStrategy &strategy) const;
  bool isPossible(const AxisStrategy &strategy) const;
  void add(AxisStrategy strategy);

  Operation *op;
  const ShardingRule &rule;
  MeshAxis axis;
};

} // namespace

/// Whether values of the types exist so: a boolean is never a term of a sum.
bool StrategyList::isPossible(const AxisStrategy &strategy) const {
  auto fits = [](Type type, AxisPlacement placement) {
    if (placement.isReplicate())
      return true;
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && (!placement.isPartial() ||
                      dist::isReducible(placement.reduction, tensor.getElementType()));
  };
  return llvm::all_of_zip(op->getOperandTypes(), strategy.operands, fits) &&
         llvm::all_of_zip(op->getResultTypes(), strategy.results, fits);
}

void StrategyList::add(AxisStrategy strategy) {
  if (!isPossible(strategy))
    return;
  for (const AxisStrategy &other : strategies)
    if (other.operands == strategy.operands && other.results == strategy.results)
      return;
  strategies.push_back(strategy);
  // What only lends its shape is taken as it is: a pending sum has the shape of the whole, too.
  bool lends = false;
  for (unsigned operand : rule.shapeOnly)
    if (strategy.operands[operand].isReplicate()) {
      strategy.operands[operand] = AxisPlacement::partial();
      lends = true;
    }
  if (lends)
    add(std::move(strategy));
}

//===----------------------------------------------------------------------===//
// A factor cut
//===----------------------------------------------------------------------===//

/// The dimension that is sharded where the strategy's factor is cut; none if a part of the factor
/// is no shard of a dimension, whatever the other axes cut.
std::optional<unsigned> StrategyList::findDim(const TensorFactors &tensor,
                                              AxisStrategy &strategy) const {
  FactorId factor = *strategy.factor;
  if (std::optional<unsigned> dim = rule.leadingDim(tensor, factor))
    return dim;
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    auto at = llvm::find(factors, factor);
    if (at == factors.end())
      continue;
    for (FactorId before : llvm::make_range(factors.begin(), at)) {
      if (rule.factors[before].isWhole())
        return std::nullopt;
      if (rule.factors[before].size != 1 && !llvm::is_contained(strategy.inFront, before))
        strategy.inFront.push_back(before);
    }
    return dim;
  }
  return std::nullopt;
}

std::optional<AxisStrategy> StrategyList::cut(FactorId factor) const {
  AxisStrategy strategy = makeReplicated();
  strategy.factor = factor;
  const sharding::Factor &info = rule.factors[factor];
  bool stands = false;
  for (auto [operand, tensor] : llvm::enumerate(rule.operands)) {
    if (ShardingRule::contains(tensor, factor)) {
      std::optional<unsigned> dim = findDim(tensor, strategy);
      if (!dim)
        return std::nullopt;
      strategy.operands[operand] = AxisPlacement::shard(*dim);
      stands = true;
    } else if (llvm::is_contained(info.addends, operand)) {
      strategy.operands[operand] = AxisPlacement::partial();
    }
  }
  // A factory's result is sharded where an operand lends the shape of a shard; a constant without
  // operands has one value on all ranks, of which each slices its part locally.
  if (!stands && rule.kind != OpKind::Random)
    return std::nullopt;
  for (auto [result, tensor] : llvm::enumerate(rule.results)) {
    if (ShardingRule::contains(tensor, factor)) {
      std::optional<unsigned> dim = findDim(tensor, strategy);
      if (!dim)
        return std::nullopt;
      strategy.results[result] = AxisPlacement::shard(*dim);
    } else if (sharding::FactorReduction reduction = rule.reductionAt(factor, result);
               reduction != sharding::FactorReduction::None &&
               isa<RankedTensorType>(op->getResult(result).getType())) {
      strategy.results[result] = AxisPlacement::partial(toDist(reduction));
    }
  }
  return strategy;
}

/// Uneven parts of a factor are those of its dimension only where it is alone there; and a mean of
/// means is none.
bool StrategyList::mayBeUneven(FactorId factor) const {
  if (rule.factors[factor].reduction == sharding::FactorReduction::Avg)
    return false;
  auto isAlone = [&](const sharding::TensorFactors &tensor) {
    return llvm::all_of(tensor, [&](const sharding::DimFactors &dim) {
      return !llvm::is_contained(dim, factor) || llvm::all_of(dim, [&](FactorId other) {
        return other == factor || rule.factors[other].size == 1;
      });
    });
  };
  return llvm::all_of(rule.operands, isAlone) && llvm::all_of(rule.results, isAlone);
}

void StrategyList::addShards() {
  SmallVector<AxisStrategy> conditional;
  for (auto [factor, info] : llvm::enumerate(rule.factors)) {
    if (info.isWhole() || !canShard(info.size, axis))
      continue;
    if (info.size % axis.size != 0 && !mayBeUneven(factor))
      continue;
    if (std::optional<AxisStrategy> strategy = cut(factor)) {
      if (strategy->inFront.empty())
        add(std::move(*strategy));
      else
        conditional.push_back(std::move(*strategy));
    }
  }
  // Where one of these agrees with one that other axes have no say in, that one stands for both.
  for (AxisStrategy &strategy : conditional)
    add(std::move(strategy));
}

//===----------------------------------------------------------------------===//
// Partial values through linear ops
//===----------------------------------------------------------------------===//

void StrategyList::addPartials() {
  if (rule.kind == OpKind::Factory)
    return;
  for (const LinearGroup &group : rule.linear) {
    // Among groups with the same operands the first counts, as in `findLinear`.
    if (rule.findLinear([&](unsigned i) { return llvm::is_contained(group.operands, i); }) !=
        &group)
      continue;
    SmallVector<dist::Reduction, 5> reductions = {dist::Reduction::Sum};
    if (group.moves)
      reductions.append({dist::Reduction::Avg, dist::Reduction::Max, dist::Reduction::Min,
                         dist::Reduction::Product});
    for (dist::Reduction reduction : reductions) {
      AxisStrategy strategy = makeReplicated();
      for (unsigned operand : group.operands)
        strategy.operands[operand] = AxisPlacement::partial(reduction);
      for (unsigned result : group.results)
        strategy.results[result] = AxisPlacement::partial(reduction);
      add(std::move(strategy));
    }
  }
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

void StrategyList::addForms() {
  SmallVector<AxisStrategy> offered;
  for (const Form *form : getForms(op->getName()))
    form->getStrategies(op, axis, offered);
  for (AxisStrategy &strategy : offered)
    if (!llvm::any_of(strategies, [&](const AxisStrategy &other) {
          return other.operands == strategy.operands && other.results == strategy.results;
        }))
      strategies.push_back(std::move(strategy));
}

bool placement::canShard(int64_t size, const MeshAxis &axis) {
  if (size < axis.size)
    return false;
  return size % axis.size == 0 ||
         (axis.allowsUneven && dist::chunkOf(size, axis.size, axis.size - 1).size > 0);
}

int64_t placement::shardSize(int64_t size, const MeshAxis &axis) {
  return dist::chunkOf(size, axis.size, axis.place).size;
}

/// Whether an axis shards what is in parts of other axes' ranks: rows that these exchange.
static bool dividesParts(Operation *op, const MeshAxis &axis, const AxisStrategy &strategy) {
  for (auto [operand, placement] : llvm::zip_equal(op->getOpOperands(), strategy.operands)) {
    dist::PlacementAttr marked = dist::getPlacementOf(operand);
    if (!marked || marked.get(axis.name) || !placement.isShard())
      continue;
    for (const dist::AxisEntry &entry : marked.getEntries())
      if (entry.placement.isShard(placement.dim))
        return true;
  }
  return false;
}

SmallVector<AxisStrategy> placement::getStrategies(Operation *op, MeshAxis axis) {
  ShardingRule rule = sharding::getShardingRule(op);
  StrategyList list(op, rule, axis);
  list.addReplicated();
  list.addShards();
  if (op->hasAttr(dist::kPartsAttr))
    llvm::erase_if(list.strategies,
                   [&](const AxisStrategy &strategy) { return dividesParts(op, axis, strategy); });
  list.addPartials();
  list.addForms();
  return std::move(list.strategies);
}

bool placement::isCutInFront(const ShardingRule &rule, const AxisStrategy &strategy,
                             ArrayRef<FactorCut> cuts) {
  return llvm::all_of(strategy.inFront, [&](FactorId factor) {
    int64_t ranks = 1;
    for (auto [cut, size] : cuts)
      ranks *= cut == factor ? size : 1;
    return ranks == rule.factors[factor].size;
  });
}
