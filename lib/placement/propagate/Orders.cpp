//===- Orders.cpp - which of several axes is the major one -------------------===//

#include "lib/placement/propagate/Orders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;

namespace {

/// By axis, a number: lower ones are major.
using Ranking = SmallVector<unsigned, 4>;

class Orders {
public:
  explicit Orders(Propagation &propagation)
      : p(propagation), graph(*propagation.graph),
        mesh(FlatSymbolRefAttr::get(propagation.mesh.getContext(), propagation.mesh.getSymName())) {
  }
  void run();

private:
  Ranking byMesh() const {
    Ranking ranking;
    for (unsigned axis = 0; axis < p.axes.size(); ++axis)
      ranking.push_back(axis);
    return ranking;
  }
  std::optional<Ranking> fromAttribute(PlacementAttr placement) const;
  Ranking ofGroup(unsigned group) const;
  Ranking ofOp(unsigned op) const;
  PlacementAttr make(unsigned number, bool isUse, const Ranking &ranking) const;

  Propagation &p;
  const Graph &graph;
  FlatSymbolRefAttr mesh;
};

} // namespace

/// The order that an attribute says; none where no two of its axes share a dimension.
std::optional<Ranking> Orders::fromAttribute(PlacementAttr placement) const {
  if (!placement)
    return std::nullopt;
  Ranking ranking = byMesh();
  bool says = false;
  for (auto [axis, info] : llvm::enumerate(p.axes)) {
    std::optional<AxisPlacement> entry = placement.get(info.name);
    if (!entry || !entry->isShard() || placement.getShardingAxes(entry->dim).size() < 2)
      continue;
    says = true;
    ranking[axis] = entry->order;
  }
  return says ? std::optional(ranking) : std::nullopt;
}

Ranking Orders::ofGroup(unsigned number) const {
  const Group &group = graph.groups[number];
  for (unsigned port : group.ports)
    if (auto ranking = fromAttribute(graph.ports[port].getAnnotation()))
      return *ranking;
  Ranking ranking = byMesh();
  if (group.kind == train::RoleKind::Parameter)
    for (unsigned axis = 0; axis < p.axes.size(); ++axis)
      if (p.records[axis].candidates.isDataAxis)
        ranking[axis] += p.axes.size();
  return ranking;
}

Ranking Orders::ofOp(unsigned number) const {
  const OpNode &op = graph.ops[number];
  for (unsigned value : op.results)
    if (value != kNone)
      if (auto ranking = fromAttribute(graph.getAttribute(graph.values[value])))
        return *ranking;
  for (unsigned use : op.operands)
    if (use != kNone)
      if (auto ranking = fromAttribute(graph.getAttribute(graph.uses[use])))
        return *ranking;
  for (unsigned use : op.operands) {
    if (use == kNone)
      continue;
    auto ranking = fromAttribute(p.made[graph.uses[use].value]);
    if (!ranking)
      continue;
    // Only where the op takes it by the same axes does their order say something.
    unsigned same = 0;
    for (const AxisSolution &solution : p.solutions)
      same += solution.taken[use].isShard() &&
              solution.taken[use] == solution.made[graph.uses[use].value];
    if (same > 1)
      return *ranking;
  }
  return byMesh();
}

PlacementAttr Orders::make(unsigned number, bool isUse, const Ranking &ranking) const {
  SmallVector<AxisEntry> entries;
  for (auto [axis, info] : llvm::enumerate(p.axes)) {
    const AxisSolution &solution = p.solutions[axis];
    entries.push_back({info.name, isUse ? solution.taken[number] : solution.made[number]});
  }
  for (unsigned a = 0; a < entries.size(); ++a)
    for (unsigned b = 0; b < entries.size(); ++b)
      if (a != b && entries[a].placement.isShard() &&
          entries[b].placement.isShard(entries[a].placement.dim))
        entries[a].placement.order += std::pair(ranking[b], b) < std::pair(ranking[a], a);
  return PlacementAttr::get(mesh, entries);
}

void Orders::run() {
  p.made.resize(graph.values.size());
  p.taken.resize(graph.uses.size());
  std::vector<Ranking> groups;
  for (unsigned group = 0; group < graph.groups.size(); ++group)
    groups.push_back(ofGroup(group));
  for (const Port &port : graph.ports) {
    if (port.isResult)
      p.taken[port.use] = make(port.use, true, groups[port.group]);
    else
      p.made[port.value] = make(port.value, false, groups[port.group]);
  }
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    Ranking ranking = ofOp(number);
    for (unsigned use : op.operands)
      if (use != kNone)
        p.taken[use] = make(use, true, ranking);
    for (unsigned value : op.results)
      if (value != kNone)
        p.made[value] = make(value, false, ranking);
  }
}

void propagate::assignOrders(Propagation &propagation) {
  Orders(propagation).run();
}
