//===- JointCosts.cpp - seconds of work and redistributions on a mesh --------===//

#include "lib/placement/propagate/JointCosts.h"
#include "lib/aten/OpCost.h"

#include "dialects/dist/Verify.h"

#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using Kind = RedistributionStep::Kind;

JointCosts::JointCosts(ArrayRef<MeshAxis> axes, const MachineModel &machine)
    : axes(axes), groups(getGroups(axes)), cluster(machine.describe(axes)), planner(axes) {
  for (const MeshAxis &axis : axes)
    ranks *= axis.size;
}

//===----------------------------------------------------------------------===//
// Redistributions
//===----------------------------------------------------------------------===//

double JointCosts::bytesOnRank(RankedTensorType type, ArrayRef<AxisPlacement> placement) const {
  double bytes = static_cast<double>(dist::bytesOf(type));
  for (auto [entry, axis] : llvm::zip_equal(placement, axes))
    if (entry.isShard())
      bytes /= static_cast<double>(axis.size);
  return bytes;
}

/// Of what is divided evenly, the way depends on nothing but which axes divide a dimension: types
/// that agree in this share it. Elements are large enough for all parts to be whole bytes.
RankedTensorType JointCosts::simplify(RankedTensorType type) {
  RankedTensorType &simple = simplified[type];
  if (simple)
    return simple;
  SmallVector<int64_t> shape;
  for (int64_t size : type.getShape())
    shape.push_back(std::gcd(size, ranks));
  return simple =
             RankedTensorType::get(shape, ComplexType::get(Float64Type::get(type.getContext())));
}

/// `before` and `after`: bytes that a rank has.
double JointCosts::timeOf(const RedistributionStep &step, double before, double after) const {
  cost::Collective kind;
  double bytes = before;
  switch (step.kind) {
  case Kind::AllReduce:
    kind = cost::Collective::AllReduce;
    break;
  case Kind::ReduceScatter:
    kind = cost::Collective::ReduceScatter;
    break;
  case Kind::AllGather:
    kind = cost::Collective::AllGather;
    bytes = after;
    break;
  case Kind::AllToAll:
    kind = cost::Collective::AllToAll;
    break;
  case Kind::Convert:
  case Kind::Reinterpret:
    return 0;
  }
  cost::Group group{1, ranks};
  for (auto [axis, along] : llvm::zip_equal(axes, groups)) {
    if (!llvm::is_contained(step.axes, axis.name))
      continue;
    group.size *= along.size;
    group.stride = std::min(group.stride, along.stride);
  }
  return cost::timeOf(cluster, kind, group, bytes);
}

double JointCosts::timeOf(RankedTensorType type, ArrayRef<AxisPlacement> from,
                          const Redistribution &plan) const {
  double seconds = 0, before = bytesOnRank(type, from);
  for (const RedistributionStep &step : plan.steps) {
    double after = bytesOnRank(type, step.result);
    seconds += timeOf(step, before, after);
    before = after;
  }
  return seconds;
}

std::optional<double> JointCosts::redistribute(RankedTensorType type, ArrayRef<AxisPlacement> from,
                                               ArrayRef<AxisPlacement> to) {
  if (from == to)
    return 0;
  const Redistribution *plan = planner.plan(simplify(type), from, to);
  if (!plan)
    return std::nullopt;
  // A conversion that sends nothing takes next to nothing, but more than none.
  return kTieBreak + timeOf(type, from, *plan);
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

static bool isDivided(const AxisStrategy &strategy) {
  auto isShard = [](AxisPlacement p) { return p.isShard(); };
  return llvm::any_of(strategy.operands, isShard) || llvm::any_of(strategy.results, isShard);
}

double JointCosts::work(Operation *op, ArrayRef<const AxisStrategy *> strategies) const {
  double part = 1, sent = 0;
  for (auto [axis, strategy] : llvm::zip_equal(axes, strategies))
    if (isDivided(*strategy))
      part /= static_cast<double>(axis.size);
  for (auto [group, strategy] : llvm::zip_equal(groups, strategies)) {
    if (!strategy->bytes)
      continue;
    // What a form sends along one axis, the others divide.
    double bytes = static_cast<double>(strategy->bytes) * part;
    if (isDivided(*strategy))
      bytes *= static_cast<double>(group.size);
    sent += AxisCosts(cluster, group).send(bytes);
  }
  return cost::timeOf(cluster, aten::describeWork(op), {}) * part + sent;
}
