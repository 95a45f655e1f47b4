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

JointCosts::JointCosts(ArrayRef<MeshAxis> axes, const MachineModel &machine,
                       const cost::Cluster *cluster)
    : axes(axes), machine(machine), cluster(cluster), fastest(machine.any.bandwidth),
      planner(axes) {
  for (const auto &link : machine.links)
    fastest = std::max(fastest, link.second.bandwidth);
  strides.resize(axes.size());
  for (size_t axis = axes.size(); axis-- > 0;) {
    strides[axis] = ranks;
    ranks *= axes[axis].size;
  }
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
RankedTensorType JointCosts::simplify(RankedTensorType type) const {
  SmallVector<int64_t> shape;
  for (int64_t size : type.getShape())
    shape.push_back(std::gcd(size, ranks));
  return RankedTensorType::get(shape, ComplexType::get(Float64Type::get(type.getContext())));
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
  double bandwidth = 0, latency = 0;
  for (auto [axis, stride] : llvm::zip_equal(axes, strides)) {
    if (!llvm::is_contained(step.axes, axis.name))
      continue;
    AxisLink link = machine.getLink(axis.name);
    bandwidth = group.size == 1 ? link.bandwidth : std::min(bandwidth, link.bandwidth);
    latency = std::max(latency, link.latency);
    group.size *= axis.size;
    group.stride = std::min(group.stride, stride);
  }
  if (cluster)
    return cost::timeOf(*cluster, kind, group, bytes);
  auto n = static_cast<double>(group.size);
  double passes = step.kind == Kind::AllReduce ? 2 : 1;
  return passes * (bytes * (n - 1) / n / bandwidth + latency * (n - 1));
}

std::optional<double> JointCosts::redistribute(RankedTensorType type, ArrayRef<AxisPlacement> from,
                                               ArrayRef<AxisPlacement> to) {
  if (from == to)
    return 0;
  const Redistribution *plan = planner.plan(simplify(type), from, to);
  if (!plan)
    return std::nullopt;
  // A conversion that sends nothing takes next to nothing, but more than none.
  double seconds = kTieBreak, before = bytesOnRank(type, from);
  for (const RedistributionStep &step : plan->steps) {
    double after = bytesOnRank(type, step.result);
    seconds += timeOf(step, before, after);
    before = after;
  }
  return seconds;
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
  for (auto [axis, stride, strategy] : llvm::zip_equal(axes, strides, strategies)) {
    if (!strategy->bytes)
      continue;
    // What a form sends along one axis, the others divide.
    double bytes = static_cast<double>(strategy->bytes) * part;
    auto n = static_cast<double>(axis.size);
    if (isDivided(*strategy))
      bytes *= n;
    sent += cluster ? cost::timeOf(*cluster, cost::Collective::AllGather, {axis.size, stride},
                                   bytes * n / (n - 1))
                    : AxisCosts(axis.size, machine.getLink(axis.name)).send(bytes);
  }
  double whole = cluster ? cost::timeOf(*cluster, aten::describeWork(op), {})
                         : aten::estimateCost(op) * machine.work / fastest;
  return whole * part + sent;
}
