//===- AxisInference.cpp - which placements an op may join, on one axis ------===//

#include "lib/typing/AxisInference.h"

using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using sharding::DimFactors;
using sharding::FactorId;
using sharding::LinearGroup;
using sharding::OpKind;
using sharding::ShardingRule;
using sharding::TensorFactors;
using Reason = Conflict::Reason;
using Choices = llvm::SmallVector<AxisChoice, 1>;

namespace {

class AxisInference {
public:
  AxisInference(const ShardingRule &rule, llvm::ArrayRef<AxisOperand> operands) : rule(rule) {
    for (auto [i, operand] : llvm::enumerate(operands)) {
      placements.push_back(operand.placement);
      // What only lends its shape to a computation lends a shard's shape to a shard's.
      bool countsWhole =
          llvm::is_contained(rule.shapeOnly, i) && !(rule.kind == OpKind::Compute && isShard(i));
      if (operand.placement && !countsWhole)
        active.push_back(i);
    }
  }

  AxisResult run(llvm::ArrayRef<AxisOperand> operands);

private:
  AxisChoice all(AxisPlacement placement) const {
    return {llvm::SmallVector<AxisPlacement, 1>(rule.results.size(), placement), std::nullopt};
  }
  template <typename Predicate> std::optional<unsigned> find(Predicate predicate) const {
    for (unsigned operand : active)
      if (predicate(*placements[operand]))
        return operand;
    return std::nullopt;
  }
  bool isPartial(unsigned operand) const {
    return placements[operand] && placements[operand]->isPartial();
  }
  bool isShard(unsigned operand) const {
    return placements[operand] && placements[operand]->isShard();
  }

  Choices makeConstant() const;
  AxisResult joinPartials() const;
  Conflict explainPartials() const;
  AxisResult joinShards(unsigned first) const;
  llvm::SmallVector<FactorId, 2> leading(unsigned operand) const;
  std::optional<Conflict> checkOperands(FactorId factor, unsigned first) const;
  std::variant<AxisChoice, Conflict> shardBy(FactorId factor, unsigned first) const;

  const ShardingRule &rule;
  llvm::SmallVector<std::optional<AxisPlacement>, 4> placements;
  /// Operands of which more matters than the shape of the whole.
  llvm::SmallVector<unsigned, 4> active;
};

} // namespace

AxisResult AxisInference::run(llvm::ArrayRef<AxisOperand> operands) {
  if (rule.kind == OpKind::Factory || active.empty())
    return makeConstant();
  // Rules 1 and 3: all I stays I; an I without a gradient counts as R, an R without one as I.
  std::optional<unsigned> invariant, other, foreign;
  for (unsigned operand : active) {
    bool carries = operands[operand].carriesGradient;
    if (placements[operand]->isInvariant()) {
      if (!invariant || (carries && !operands[*invariant].carriesGradient))
        invariant = operand;
      continue;
    }
    other = other ? other : operand;
    if (!placements[operand]->isReplicate() || carries)
      foreign = foreign ? foreign : operand;
  }
  if (!other)
    return Choices{all(AxisPlacement::invariant())};
  if (invariant && operands[*invariant].carriesGradient) {
    if (foreign)
      return Conflict{Reason::InvariantMixed, *invariant, *foreign};
    return Choices{all(AxisPlacement::invariant())};
  }
  for (unsigned operand : active)
    if (placements[operand]->isInvariant())
      placements[operand] = AxisPlacement::replicate();

  auto partial = find([](AxisPlacement p) { return p.isPartial(); });
  auto varying = find([](AxisPlacement p) { return p.isVarying(); });
  auto shard = find([](AxisPlacement p) { return p.isShard(); });
  if (partial && varying)
    return Conflict{Reason::PartialVarying, *partial, *varying};
  if (varying)
    return Choices{all(AxisPlacement::varying())};
  if (shard)
    return joinShards(*shard);
  if (partial)
    return joinPartials();
  Choices choices{all(AxisPlacement::replicate())};
  if (invariant && !foreign)
    choices.push_back(all(AxisPlacement::invariant()));
  return choices;
}

/// Rule 5: results that depend on no operand's elements. Where the shape comes from a sharded
/// operand, the same constants are also the shards of a larger constant.
Choices AxisInference::makeConstant() const {
  Choices choices;
  for (unsigned operand = 0; operand < placements.size(); ++operand) {
    if (!isShard(operand))
      continue;
    for (FactorId factor : leading(operand)) {
      AxisChoice choice = all(AxisPlacement::invariant());
      choice.factor = factor;
      bool follows = true;
      for (auto [result, tensor] : llvm::enumerate(rule.results)) {
        std::optional<unsigned> dim = rule.leadingDim(tensor, factor);
        follows &= dim.has_value();
        choice.results[result] = AxisPlacement::shard(dim.value_or(0));
      }
      if (follows)
        choices.push_back(std::move(choice));
    }
  }
  choices.push_back(all(AxisPlacement::invariant()));
  choices.push_back(all(AxisPlacement::replicate()));
  return choices;
}

//===----------------------------------------------------------------------===//
// Partial values
//===----------------------------------------------------------------------===//

/// Rule 4, where all other operands are R.
AxisResult AxisInference::joinPartials() const {
  std::optional<unsigned> first;
  for (unsigned operand : active) {
    if (!isPartial(operand))
      continue;
    if (!first)
      first = operand;
    else if (placements[operand]->reduction != placements[*first]->reduction)
      return Conflict{Reason::PartialMixed, *first, operand};
  }
  const LinearGroup *group = rule.findLinear([&](unsigned operand) { return isPartial(operand); });
  if (!group)
    return explainPartials();
  if (!placements[*first]->isPartialSum() && !group->moves)
    return Conflict{Reason::PartialMoved, *first, *first};
  // Results outside of the group do not depend on its operands.
  AxisChoice choice = all(AxisPlacement::replicate());
  for (unsigned result : group->results)
    choice.results[result] = *placements[*first];
  return Choices{std::move(choice)};
}

Conflict AxisInference::explainPartials() const {
  llvm::SmallVector<unsigned, 2> partials;
  for (unsigned operand : active)
    if (isPartial(operand))
      partials.push_back(operand);
  for (unsigned operand : partials)
    if (llvm::none_of(rule.linear, [&](const LinearGroup &group) {
          return llvm::is_contained(group.operands, operand);
        }))
      return {Reason::PartialNonlinear, operand, operand};
  for (const LinearGroup &group : rule.linear)
    if (llvm::all_of(partials, [&](unsigned i) { return llvm::is_contained(group.operands, i); }))
      for (unsigned operand : group.operands)
        if (!isPartial(operand))
          return {Reason::PartialPlusWhole, partials.front(), operand};
  // Each is in a group, and no group has them all: two have none in common.
  for (unsigned a : partials)
    for (unsigned b : partials)
      if (llvm::none_of(rule.linear, [&](const LinearGroup &group) {
            return llvm::is_contained(group.operands, a) && llvm::is_contained(group.operands, b);
          }))
        return {Reason::PartialProduct, a, b};
  return {Reason::PartialProduct, partials.front(), partials.back()};
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

/// The factors that the operand's S(dim) may cut: one of a size other than 1 first, then the major
/// ones.
llvm::SmallVector<FactorId, 2> AxisInference::leading(unsigned operand) const {
  llvm::SmallVector<FactorId, 2> factors;
  for (FactorId factor : rule.leadingFactors(rule.operands[operand][placements[operand]->dim]))
    if (!rule.factors[factor].isWhole())
      factors.push_back(factor);
  if (!factors.empty() && rule.factors[factors.back()].size != 1)
    std::rotate(factors.begin(), factors.end() - 1, factors.end());
  return factors;
}

/// `first` is S, the others S, R or P.
AxisResult AxisInference::joinShards(unsigned first) const {
  for (unsigned operand : active)
    if (isShard(operand) && leading(operand).empty()) {
      const DimFactors &dim = rule.operands[operand][placements[operand]->dim];
      Conflict conflict{Reason::ShardWhole, operand, operand};
      if (!dim.empty())
        conflict.factor = dim.front();
      return conflict;
    }
  Choices choices;
  std::optional<Conflict> conflict;
  for (FactorId factor : leading(first)) {
    std::variant<AxisChoice, Conflict> way = shardBy(factor, first);
    if (auto *choice = std::get_if<AxisChoice>(&way))
      choices.push_back(std::move(*choice));
    else if (!conflict)
      conflict = std::get<Conflict>(way);
  }
  if (choices.empty())
    return *conflict;
  return choices;
}

/// Every operand that has the factor is sharded by it, and no operand is sharded by another one.
std::optional<Conflict> AxisInference::checkOperands(FactorId factor, unsigned first) const {
  for (unsigned operand : active) {
    const TensorFactors &tensor = rule.operands[operand];
    if (isShard(operand)) {
      if (!llvm::is_contained(leading(operand), factor))
        return Conflict{Reason::ShardCrossed, first, operand, factor};
      continue;
    }
    // What is one along the dimension and held whole stretches to what the others have sharded.
    auto blocks = [&](const DimFactors &dim) {
      bool isOne = llvm::all_of(dim, [&](FactorId f) { return rule.factors[f].size == 1; });
      return llvm::is_contained(dim, factor) && !(isOne && rule.broadcasts);
    };
    if (!llvm::any_of(tensor, blocks))
      continue;
    if (isPartial(operand))
      return Conflict{Reason::PartialVarying, operand, first, factor};
    return Conflict{Reason::ShardUnlike, first, operand, factor};
  }
  return std::nullopt;
}

std::variant<AxisChoice, Conflict> AxisInference::shardBy(FactorId factor, unsigned first) const {
  if (std::optional<Conflict> conflict = checkOperands(factor, first))
    return *conflict;
  const sharding::Factor &cut = rule.factors[factor];
  // What is added to the sum over shards has to be a term of it on each rank.
  for (unsigned operand : active) {
    bool isAddend = llvm::is_contained(cut.addends, operand);
    if (isPartial(operand) && !(isAddend && placements[operand]->isPartialSum()))
      return Conflict{Reason::PartialVarying, operand, first, factor};
    if (isAddend && !isPartial(operand))
      return Conflict{Reason::PartialAddend, first, operand, factor};
  }
  AxisChoice choice = all(AxisPlacement::replicate());
  choice.factor = factor;
  for (auto [result, tensor] : llvm::enumerate(rule.results)) {
    if (ShardingRule::contains(tensor, factor)) {
      std::optional<unsigned> dim = rule.leadingDim(tensor, factor);
      if (!dim)
        return Conflict{Reason::ShardInner, first, first, factor, static_cast<unsigned>(result)};
      choice.results[result] = AxisPlacement::shard(*dim);
      continue;
    }
    switch (rule.reductionAt(factor, result)) {
    case sharding::FactorReduction::None:
      break;
    case sharding::FactorReduction::Sum:
      choice.results[result] = AxisPlacement::partial(dist::Reduction::Sum);
      break;
    case sharding::FactorReduction::Avg:
      choice.results[result] = AxisPlacement::partial(dist::Reduction::Avg);
      break;
    case sharding::FactorReduction::Max:
      choice.results[result] = AxisPlacement::partial(dist::Reduction::Max);
      break;
    case sharding::FactorReduction::Min:
      choice.results[result] = AxisPlacement::partial(dist::Reduction::Min);
      break;
    case sharding::FactorReduction::Product:
      choice.results[result] = AxisPlacement::partial(dist::Reduction::Product);
      break;
    }
  }
  return choice;
}

AxisResult cleave::placement::inferAxis(const ShardingRule &rule,
                                        llvm::ArrayRef<AxisOperand> operands) {
  return AxisInference(rule, operands).run(operands);
}
