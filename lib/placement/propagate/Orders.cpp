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
  std::optional<Ranking> fromAnnotations(const OpNode &op) const;
  bool isShared(unsigned use) const;
  void followOperands();
  void followUses();
  PlacementAttr make(unsigned number, bool isUse, const Ranking &ranking) const;

  Propagation &p;
  const Graph &graph;
  FlatSymbolRefAttr mesh;
  std::vector<Ranking> groups;
  std::vector<std::optional<Ranking>> ops;
};

} // namespace

/// The order that an attribute says; none if no two of its axes share a dimension.
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

std::optional<Ranking> Orders::fromAnnotations(const OpNode &op) const {
  for (unsigned value : op.results)
    if (value != kNone)
      if (auto ranking = fromAttribute(graph.getAttribute(graph.values[value])))
        return ranking;
  for (unsigned use : op.operands)
    if (use != kNone)
      if (auto ranking = fromAttribute(graph.getAttribute(graph.uses[use])))
        return ranking;
  return std::nullopt;
}

/// Whether several axes shard one dimension of the value, and the use takes it by them too.
bool Orders::isShared(unsigned use) const {
  unsigned value = graph.uses[use].value;
  for (const AxisSolution &a : p.solutions)
    for (const AxisSolution &b : p.solutions)
      if (&a != &b && a.made[value].isShard() && b.made[value].isShard(a.made[value].dim) &&
          a.taken[use] == a.made[value] && b.taken[use] == b.made[value])
        return true;
  return false;
}

/// From what the op takes to the op.
void Orders::followOperands() {
  for (auto [number, op] : llvm::enumerate(graph.ops))
    for (unsigned use : op.operands) {
      if (ops[number] || use == kNone || !isShared(use))
        continue;
      const ValueNode &value = graph.values[graph.uses[use].value];
      ops[number] =
          value.op != kNone ? ops[value.op] : std::optional(groups[graph.ports[value.port].group]);
    }
}

/// From what uses an op's results to the op.
void Orders::followUses() {
  for (size_t number = graph.ops.size(); number-- > 0;)
    for (unsigned value : graph.ops[number].results) {
      if (value == kNone)
        continue;
      for (unsigned use : graph.values[value].uses) {
        if (ops[number] || !isShared(use))
          continue;
        const Use &user = graph.uses[use];
        ops[number] =
            user.op != kNone ? ops[user.op] : std::optional(groups[graph.ports[user.port].group]);
      }
    }
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
  for (unsigned group = 0; group < graph.groups.size(); ++group)
    groups.push_back(ofGroup(group));
  for (const Port &port : graph.ports) {
    if (port.isResult)
      p.taken[port.use] = make(port.use, true, groups[port.group]);
    else
      p.made[port.value] = make(port.value, false, groups[port.group]);
  }
  for (const OpNode &op : graph.ops)
    ops.push_back(fromAnnotations(op));
  // What a reduction scatters has no order of its own: it takes that of its use.
  followOperands();
  followUses();
  followOperands();
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    Ranking ranking = ops[number].value_or(byMesh());
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
