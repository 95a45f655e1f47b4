//===- ProgramStyles.cpp - data, context and fully sharded parallelism ------===//
//
// Styles of the whole program. They are defaults: a parameter or input that another rule places on
// the axis stays as that rule says.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/Strategy.h"
#include "lib/placement/plan/Apply.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using train::RoleKind;
using Strength = Annotations::Strength;

LogicalResult PlanApplier::applyProgramStyle(const PlanRule &rule) {
  switch (rule.style) {
  case Style::Data:
    if (failed(divideInputs(rule.axis, rule)))
      return failure();
    for (const Parameter &parameter : parameters)
      if (failed(replicateParameter(parameter, rule, Strength::Default)))
        return failure();
    return success();
  case Style::Context:
    return divideSequence(rule);
  case Style::HSDP:
    if (failed(divideInputs(rule.replicateAxis, rule)))
      return failure();
    [[fallthrough]];
  default:
    return failed(divideInputs(rule.axis, rule)) ? failure() : shardParameters(rule, rule.dim);
  }
}

LogicalResult PlanApplier::divideInputs(StringRef axis, const PlanRule &rule) {
  bool divided = false;
  for (const Named &value : named) {
    if (value.role.getKind() != RoleKind::Input && value.role.getKind() != RoleKind::Target)
      continue;
    std::optional<int64_t> batch = value.role.getBatch();
    divided |= batch.has_value();
    auto placement = batch ? AxisPlacement::shard(*batch) : AxisPlacement::replicate();
    if (failed(annotations.place(value.site, axis, placement, rule, Strength::Default)))
      return failure();
  }
  if (!divided)
    return fail(rule) << "divides the batch over axis \"" << axis
                      << "\", but no input has a dimension that counts examples";
  return success();
}

LogicalResult PlanApplier::placeParameter(const Parameter &parameter, StringRef axis,
                                          AxisPlacement placement, const PlanRule &rule) {
  for (Value value : parameter.values) {
    FailureOr<bool> stands = annotations.place(value, axis, placement, rule, Strength::Default);
    if (failed(stands))
      return failure();
    if (!*stands || !placement.isShard() ||
        !llvm::is_contained(functions, value.getParentBlock()->getParentOp()))
      continue;
    // Gathered for each use.
    for (OpOperand &use : value.getUses())
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
          failed(
              annotations.place(&use, axis, AxisPlacement::replicate(), rule, Strength::Default)))
        return failure();
  }
  for (OpOperand *updated : parameter.updated)
    if (failed(annotations.place(updated, axis, placement, rule, Strength::Default)))
      return failure();
  return success();
}

int64_t PlanApplier::countShardingRanks(const Parameter &parameter) const {
  llvm::SmallDenseSet<StringRef> axes;
  dist::MeshOp op = mesh;
  int64_t ranks = 1;
  for (const PlanRule *rule : sharding)
    if ((rule->pattern.empty() || parameter.isIn(rule->pattern, /*directly=*/false)) &&
        !annotations.isExplicit(parameter.values.front(), rule->axis) &&
        axes.insert(rule->axis).second)
      ranks *= op.findAxis(rule->axis).getSize();
  return ranks;
}

AxisPlacement PlanApplier::chooseSharding(const Parameter &parameter, StringRef axis) const {
  // A parameter without elements has nothing to shard.
  if (parameter.values.empty() || parameter.type.getNumElements() == 0)
    return AxisPlacement::replicate();
  Value value = parameter.values.front();
  dist::MeshOp op = mesh;
  int64_t ranks = op.findAxis(axis).getSize(), all = countShardingRanks(parameter);
  auto placement = AxisPlacement::replicate();
  auto find = [&](auto divides) {
    for (int64_t dim = 0; dim < parameter.type.getRank() && !placement.isShard(); ++dim)
      if (divides(parameter.type.getDimSize(dim), dim))
        placement = AxisPlacement::shard(dim);
  };
  // The first dimension that all axes divide evenly, so that they gather at once; or that this one
  // does; else the first of which each rank gets a part, where parts may be of different sizes;
  // else the parameter stays whole.
  find([&](int64_t size, int64_t dim) {
    return size % (annotations.countExplicitShards(value, dim) * all) == 0;
  });
  find([&](int64_t size, int64_t dim) {
    return size % (annotations.countOtherShards(value, dim, axis) * ranks) == 0;
  });
  find([&](int64_t size, int64_t dim) {
    return uneven && annotations.countOtherShards(value, dim, axis) == 1 &&
           canShard(size, {StringAttr(), ranks, uneven});
  });
  return placement;
}

LogicalResult PlanApplier::shardParameters(const PlanRule &rule, std::optional<int64_t> dim) {
  bool matched = false;
  for (const Parameter &parameter : parameters) {
    bool isMeant = rule.pattern.empty() || parameter.isIn(rule.pattern, /*directly=*/false);
    matched |= isMeant;
    auto placement = AxisPlacement::replicate();
    if (isMeant)
      placement = dim ? AxisPlacement::shard(*dim) : chooseSharding(parameter, rule.axis);
    if (failed(placeParameter(parameter, rule.axis, placement, rule)))
      return failure();
    if (!rule.replicateAxis.empty() &&
        failed(placeParameter(parameter, rule.replicateAxis, AxisPlacement::replicate(), rule)))
      return failure();
  }
  if (!matched)
    return fail(rule) << "matches no parameters to shard: "
                      << (rule.pattern.empty() ? std::string("the program has none")
                                               : "'" + rule.pattern + "'");
  return success();
}

LogicalResult PlanApplier::divideSequence(const PlanRule &rule) {
  int64_t dim = rule.dim.value_or(1);
  bool divided = false;
  for (const Named &value : named) {
    if (value.role.getKind() != RoleKind::Input && value.role.getKind() != RoleKind::Target)
      continue;
    auto type = cast<RankedTensorType>(getType(value.site));
    if (dim < 0 || dim >= type.getRank())
      continue;
    divided = true;
    if (failed(annotations.place(value.site, rule.axis, AxisPlacement::shard(dim), rule,
                                 Strength::Default)))
      return failure();
  }
  if (!divided)
    return fail(rule) << "divides the sequence over axis \"" << rule.axis
                      << "\", but no input has a dimension " << dim;
  if (rule.shardsParameters) {
    if (failed(shardParameters(rule, /*dim=*/std::nullopt)))
      return failure();
  } else {
    for (const Parameter &parameter : parameters)
      if (failed(replicateParameter(parameter, rule, Strength::Default)))
        return failure();
  }

  // Attention takes queries, keys and values of (batch, heads, sequence, features).
  constexpr int64_t kSequence = 2;
  for (func::FuncOp function : functions) {
    for (Operation &op : function.front().without_terminator()) {
      StringRef name = op.getName().stripDialect();
      if (!name.contains("scaled_dot_product"))
        continue;
      unsigned tensors = name.ends_with("backward") ? 4 : 3;
      auto place = [&](Site site) -> LogicalResult {
        auto type = dyn_cast<RankedTensorType>(getType(site));
        if (!type || type.getRank() <= kSequence)
          return success();
        return annotations.place(site, rule.axis, AxisPlacement::shard(kSequence), rule,
                                 Strength::Default);
      };
      for (OpOperand &operand : op.getOpOperands().take_front(tensors))
        if (failed(place(&operand)))
          return failure();
      for (Value result : op.getResults())
        if (failed(place(result)))
          return failure();
    }
  }
  return success();
}
