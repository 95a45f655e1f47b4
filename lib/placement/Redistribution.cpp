//===- Redistribution.cpp - from one placement to another, cheaply -----------===//
//
// Programs ask the same few questions again and again; who places them on all axes at once asks for
// all pairs.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/RedistributionSearch.h"

#include <deque>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;
using Kind = RedistributionStep::Kind;

std::optional<SmallVector<int64_t>> placement::localShape(ArrayRef<int64_t> shape,
                                                          ArrayRef<AxisPlacement> placement,
                                                          ArrayRef<MeshAxis> axes,
                                                          unsigned *refused) {
  SmallVector<int64_t> local(shape);
  for (auto [number, entry, axis] : llvm::enumerate(placement, axes)) {
    if (!entry.isShard())
      continue;
    if (refused)
      *refused = number;
    if (entry.dim >= static_cast<int64_t>(local.size()))
      return std::nullopt;
    int64_t &size = local[entry.dim];
    bool isAlone = llvm::count_if(placement, [&](const AxisPlacement &other) {
                     return other.isShard(entry.dim);
                   }) == 1;
    if (isAlone ? !canShard(size, axis) : size % axis.size != 0)
      return std::nullopt;
    size = isAlone ? shardSize(size, axis) : size / axis.size;
  }
  return local;
}

//===----------------------------------------------------------------------===//
// The planner
//===----------------------------------------------------------------------===//

struct RedistributionPlanner::Memory {
  using Pair = std::pair<unsigned, unsigned>;
  struct OfType {
    /// By `from` and `to`; null where there is no way.
    llvm::DenseMap<Pair, const Redistribution *> plans;
    /// By the kind of both.
    llvm::DenseMap<unsigned, std::unique_ptr<RedistributionGraph>> graphs;
    /// By `from` and the kind.
    llvm::DenseMap<Pair, std::unique_ptr<RedistributionSearch>> searches;
  };

  explicit Memory(unsigned axes) : placements(axes), kinds(axes) {}

  Words placements, kinds;
  llvm::DenseMap<Type, std::unique_ptr<OfType>> types;
  std::deque<Redistribution> found;
};

RedistributionPlanner::RedistributionPlanner(ArrayRef<MeshAxis> axes)
    : axes(axes), memory(std::make_unique<Memory>(axes.size())) {}
RedistributionPlanner::~RedistributionPlanner() = default;

SmallVector<AxisPlacement, 2> RedistributionPlanner::entriesOf(PlacementAttr placement) const {
  SmallVector<AxisPlacement, 2> entries;
  for (const MeshAxis &axis : axes)
    entries.push_back(placement.get(axis.name.getValue()).value_or(AxisPlacement::replicate()));
  return entries;
}

const Redistribution *RedistributionPlanner::plan(RankedTensorType type,
                                                  ArrayRef<AxisPlacement> from,
                                                  ArrayRef<AxisPlacement> to) {
  if (type.getEncoding())
    type = RankedTensorType::get(type.getShape(), type.getElementType());
  std::unique_ptr<Memory::OfType> &known = memory->types[type];
  if (!known)
    known = std::make_unique<Memory::OfType>();
  auto numberOf = [&](ArrayRef<AxisPlacement> placement) {
    SmallVector<Letter, 8> word;
    for (const AxisPlacement &entry : placement)
      word.push_back(toLetter(entry));
    return memory->placements.add(word).first;
  };
  unsigned start = numberOf(from);
  auto [plan, isNew] = known->plans.try_emplace({start, numberOf(to)}, nullptr);
  if (!isNew)
    return plan->second;
  // All that decides which edges there are.
  SmallVector<Letter, 8> word;
  SmallVector<char, 4> staysWhole;
  for (auto [before, after] : llvm::zip_equal(from, to)) {
    staysWhole.push_back(before.isReplicate() && after.isReplicate());
    word.push_back(after.isPartial() ? toLetter(after) : staysWhole.back());
  }
  unsigned kind = memory->kinds.add(word).first;
  std::unique_ptr<RedistributionGraph> &graph = known->graphs[kind];
  if (!graph)
    graph = std::make_unique<RedistributionGraph>(type, to, staysWhole, axes);
  std::unique_ptr<RedistributionSearch> &search = known->searches[{start, kind}];
  if (!search)
    search = std::make_unique<RedistributionSearch>(*graph, from);
  if (std::optional<Redistribution> way = search->find(to))
    plan->second = &memory->found.emplace_back(std::move(*way));
  return plan->second;
}

const Redistribution *RedistributionPlanner::plan(RankedTensorType type, PlacementAttr from,
                                                  PlacementAttr to) {
  return plan(type, entriesOf(from), entriesOf(to));
}

std::optional<int64_t> placement::redistributionCost(RankedTensorType type,
                                                     ArrayRef<AxisPlacement> from,
                                                     ArrayRef<AxisPlacement> to,
                                                     ArrayRef<MeshAxis> axes) {
  RedistributionPlanner planner(axes);
  const Redistribution *plan = planner.plan(type, from, to);
  return plan ? std::optional(plan->bytes) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

static Value buildStep(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> wholeShape,
                       const RedistributionStep &step, ArrayRef<MeshAxis> axes) {
  auto type = cast<RankedTensorType>(value.getType());
  PlacementAttr placement = dist::getPlacement(type);
  SmallVector<Attribute> names;
  for (auto [axis, next] : llvm::zip_equal(axes, step.result))
    if (llvm::is_contained(step.axes, axis.name))
      placement = placement.with(axis.name, next);
  // The planner went by this shape.
  std::optional<SmallVector<int64_t>> shape = localShape(wholeShape, step.result, axes);
  auto result = RankedTensorType::get(*shape, type.getElementType(), placement);
  for (StringAttr axis : step.axes)
    names.push_back(axis);
  ArrayAttr over = builder.getArrayAttr(names);
  auto reduction = dist::ReductionAttr::get(builder.getContext(), step.reduction);
  FlatSymbolRefAttr mesh = placement.getMesh();
  switch (step.kind) {
  case Kind::AllReduce:
    return dist::AllReduceOp::create(builder, loc, TypeRange(result), ValueRange(value), reduction,
                                     mesh, over)
        .getResult(0);
  case Kind::ReduceScatter:
    return dist::ReduceScatterOp::create(builder, loc, TypeRange(result), ValueRange(value),
                                         reduction, builder.getI64IntegerAttr(step.scattered), mesh,
                                         over)
        .getResult(0);
  case Kind::AllGather:
    return dist::AllGatherOp::create(builder, loc, TypeRange(result), ValueRange(value),
                                     builder.getI64IntegerAttr(step.gathered), mesh, over)
        .getResult(0);
  case Kind::AllToAll:
    return dist::AllToAllOp::create(builder, loc, result, value,
                                    builder.getI64IntegerAttr(step.scattered),
                                    builder.getI64IntegerAttr(step.gathered), mesh, over);
  case Kind::Convert:
    return dist::ConvertOp::create(builder, loc, result, value, IntegerAttr());
  case Kind::Reinterpret: {
    PlacementAttr varying = placement.with(step.axes.front(), AxisPlacement::varying());
    value = dist::ReinterpretOp::create(builder, loc, dist::withPlacement(result, varying), value);
    return dist::ReinterpretOp::create(builder, loc, result, value);
  }
  }
  llvm_unreachable("all kinds of steps are listed");
}

Value placement::buildRedistribution(OpBuilder &builder, Location loc, Value value,
                                     ArrayRef<int64_t> wholeShape, const Redistribution &plan,
                                     ArrayRef<MeshAxis> axes) {
  for (const RedistributionStep &step : plan.steps)
    value = buildStep(builder, loc, value, wholeShape, step, axes);
  return value;
}
