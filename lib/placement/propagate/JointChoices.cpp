//===- JointChoices.cpp - products of the axes' strategies -------------------===//

#include "lib/placement/propagate/JointChoices.h"
#include "lib/placement/propagate/Compatible.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using dist::PlacementAttr;

/// By axis, its place among the axes: lower ones are major.
using Ranking = SmallVector<unsigned, 4>;

class JointChoices::Builder {
public:
  Builder(const Graph &graph, ArrayRef<MeshAxis> axes) : graph(graph), axes(axes) {
    Ranking ranking;
    for (unsigned axis = 0; axis < axes.size(); ++axis)
      ranking.push_back(axis);
    do
      rankings.push_back(ranking);
    while (std::next_permutation(ranking.begin(), ranking.end()));
  }

  LogicalResult run();
  JointChoices result;

private:
  LogicalResult addOp(unsigned op);
  LogicalResult addGroup(unsigned group);
  std::string keyOf(unsigned op) const;
  unsigned number(const MeshPlacement &placement);
  void order(MeshPlacement &placement, const Ranking &ranking) const;
  bool hasAnnotatedOrder(PlacementAttr annotation, const MeshPlacement &placement) const;
  bool fitsOrders(const OpNode &op, ArrayRef<MeshPlacement> operands,
                  ArrayRef<MeshPlacement> results) const;

  const Graph &graph;
  ArrayRef<MeshAxis> axes;
  /// All orders of the axes; the mesh's is the first.
  std::vector<Ranking> rankings;
  llvm::StringMap<unsigned> classes;
  llvm::StringMap<unsigned> placements;
};

unsigned JointChoices::producerOf(const ValueNode &value) const {
  return value.op != kNone ? value.op : classOf.size() + graph->ports[value.port].group;
}

unsigned JointChoices::userOf(const Use &use) const {
  return use.op != kNone ? use.op : classOf.size() + graph->ports[use.port].group;
}

//===----------------------------------------------------------------------===//
// Placements over all axes
//===----------------------------------------------------------------------===//

static void encode(std::string &key, AxisPlacement placement) {
  key += {static_cast<char>(placement.kind), static_cast<char>(placement.reduction),
          static_cast<char>(placement.dim), static_cast<char>(placement.order)};
}

unsigned JointChoices::Builder::number(const MeshPlacement &placement) {
  std::string key;
  for (AxisPlacement entry : placement)
    encode(key, entry);
  auto [it, isNew] = placements.try_emplace(key, result.placements.size());
  if (isNew)
    result.placements.push_back(placement);
  return it->second;
}

static bool isShared(const MeshPlacement &placement) {
  for (unsigned a = 0; a < placement.size(); ++a)
    for (unsigned b = 0; b < a; ++b)
      if (placement[a].isShard() && placement[b].isShard(placement[a].dim))
        return true;
  return false;
}

/// Sets the orders of axes that shard one dimension.
void JointChoices::Builder::order(MeshPlacement &placement, const Ranking &ranking) const {
  for (unsigned a = 0; a < placement.size(); ++a) {
    placement[a].order = 0;
    for (unsigned b = 0; b < placement.size(); ++b)
      if (a != b && placement[a].isShard() && placement[b].isShard(placement[a].dim))
        placement[a].order += ranking[b] < ranking[a];
  }
}

bool JointChoices::Builder::hasAnnotatedOrder(PlacementAttr annotation,
                                              const MeshPlacement &placement) const {
  if (!annotation)
    return true;
  for (unsigned a = 0; a < axes.size(); ++a)
    for (unsigned b = 0; b < a; ++b) {
      std::optional<AxisPlacement> first = annotation.get(axes[a].name);
      std::optional<AxisPlacement> second = annotation.get(axes[b].name);
      if (first && second && first->isShard() && second->isShard(first->dim) &&
          (first->order < second->order) != (placement[a].order < placement[b].order))
        return false;
    }
  return true;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

std::string JointChoices::Builder::keyOf(unsigned op) const {
  Operation *operation = graph.ops[op].op;
  std::string key;
  auto add = [&](const void *pointer) {
    key.append(reinterpret_cast<const char *>(&pointer), sizeof(pointer));
  };
  add(operation->getName().getAsOpaquePointer());
  add(operation->getAttrDictionary().getAsOpaquePointer());
  for (Type type : operation->getOperandTypes())
    add(type.getAsOpaquePointer());
  add(nullptr);
  for (Type type : operation->getResultTypes())
    add(type.getAsOpaquePointer());
  for (const Candidates &onAxis : result.candidates)
    for (const AxisStrategy &strategy : onAxis.ops[op]) {
      key += '|';
      for (AxisPlacement placement : strategy.operands)
        encode(key, placement);
      for (AxisPlacement placement : strategy.results)
        encode(key, placement);
    }
  return key;
}

bool JointChoices::Builder::fitsOrders(const OpNode &op, ArrayRef<MeshPlacement> operands,
                                       ArrayRef<MeshPlacement> results) const {
  if (!op.op->hasAttr(dist::kResultsAttr) && !op.op->hasAttr(dist::kOperandsAttr))
    return true;
  for (auto [use, placement] : llvm::zip_equal(op.operands, operands))
    if (use != kNone && !hasAnnotatedOrder(graph.getAttribute(graph.uses[use]), placement))
      return false;
  for (auto [value, placement] : llvm::zip_equal(op.results, results))
    if (value != kNone && !hasAnnotatedOrder(graph.getAttribute(graph.values[value]), placement))
      return false;
  return true;
}

LogicalResult JointChoices::Builder::addOp(unsigned op) {
  auto [known, isNew] = classes.try_emplace(keyOf(op), result.classes.size());
  result.classOf.push_back(known->second);
  if (!isNew)
    return success();
  const OpNode &node = graph.ops[op];
  OpClass &made = result.classes.emplace_back();
  std::vector<std::vector<unsigned>> operandLists(node.operands.size());
  std::vector<std::vector<unsigned>> resultLists(node.results.size());

  SmallVector<StrategyBeside, 4> chosen;
  SmallVector<unsigned, 2> numbers;
  auto addChoices = [&] {
    SmallVector<MeshPlacement, 4> operands(node.operands.size()), results(node.results.size());
    bool isSharedAnywhere = false, isFixed = false;
    for (const StrategyBeside &along : chosen) {
      for (auto [placement, entry] : llvm::zip_equal(operands, along.strategy->operands))
        placement.push_back(entry);
      for (auto [placement, entry] : llvm::zip_equal(results, along.strategy->results))
        placement.push_back(entry);
      // A form, and what lies behind a factor that is cut, have the mesh's order.
      isFixed |= along.strategy->form || !along.strategy->inFront.empty();
    }
    for (const MeshPlacement &placement : llvm::concat<MeshPlacement>(operands, results))
      isSharedAnywhere |= isShared(placement);
    SmallVector<SmallVector<unsigned, 8>, 2> before;
    for (const Ranking &ranking : rankings) {
      SmallVector<unsigned, 8> all;
      for (MeshPlacement &placement : llvm::concat<MeshPlacement>(operands, results)) {
        order(placement, ranking);
        all.push_back(number(placement));
      }
      if (fitsOrders(node, operands, results) && !llvm::is_contained(before, all)) {
        before.push_back(all);
        made.choices.push_back({numbers});
        for (size_t i = 0; i < operands.size(); ++i)
          operandLists[i].push_back(all[i]);
        for (size_t i = 0; i < results.size(); ++i)
          resultLists[i].push_back(all[operands.size() + i]);
      }
      if (!isSharedAnywhere || isFixed)
        break;
    }
  };
  auto extend = [&](auto &&extend) -> void {
    unsigned axis = chosen.size();
    if (axis == axes.size())
      return addChoices();
    for (auto [i, strategy] : llvm::enumerate(result.candidates[axis].ops[op])) {
      if (!fitsBeside(graph, node, axes[axis], strategy, chosen))
        continue;
      chosen.push_back({axes[axis], &strategy});
      numbers.push_back(i);
      extend(extend);
      chosen.pop_back();
      numbers.pop_back();
    }
  };
  extend(extend);
  if (made.choices.empty())
    return node.op->emitOpError("cannot run as it is annotated: along each axis of the mesh there "
                                "is a strategy, but none along all of them together");
  for (auto [use, list] : llvm::zip_equal(node.operands, operandLists))
    made.operands.push_back(use == kNone ? kNone : result.lists(list));
  for (auto [value, list] : llvm::zip_equal(node.results, resultLists))
    made.results.push_back(value == kNone ? kNone : result.lists(list));
  return success();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult JointChoices::Builder::addGroup(unsigned number) {
  const Group &group = graph.groups[number];
  std::vector<std::vector<unsigned>> byPort(group.ports.size());
  SmallVector<GroupChoice, 2> chosen;
  auto addChoices = [&] {
    SmallVector<MeshPlacement, 4> placements(group.ports.size());
    bool isSharedAnywhere = false;
    for (auto [placement, port] : llvm::zip_equal(placements, group.ports)) {
      for (auto [axis, choice] : llvm::enumerate(chosen))
        placement.push_back(result.candidates[axis].getPort(port, choice));
      isSharedAnywhere |= isShared(placement);
      SmallVector<PlacementBeside, 4> before;
      for (auto [axis, entry] : llvm::zip_equal(axes, placement)) {
        if (!fitsBeside(graph.values[graph.ports[port].value].type(), axis, entry, before))
          return;
        before.push_back({axis, entry});
      }
    }
    SmallVector<SmallVector<unsigned, 8>, 2> before;
    for (const Ranking &ranking : rankings) {
      SmallVector<unsigned, 8> all;
      bool fits = true;
      for (auto [placement, port] : llvm::zip_equal(placements, group.ports)) {
        order(placement, ranking);
        all.push_back(this->number(placement));
        fits &= hasAnnotatedOrder(graph.ports[port].getAnnotation(), placement);
      }
      if (fits && !llvm::is_contained(before, all)) {
        before.push_back(all);
        for (auto [list, placement] : llvm::zip_equal(byPort, all))
          list.push_back(placement);
      }
      if (!isSharedAnywhere)
        break;
    }
  };
  auto extend = [&](auto &&extend) -> void {
    unsigned axis = chosen.size();
    if (axis == axes.size())
      return addChoices();
    for (const GroupChoice &choice : result.candidates[axis].groups[number]) {
      chosen.push_back(choice);
      extend(extend);
      chosen.pop_back();
    }
  };
  extend(extend);
  const Port &first = graph.ports[group.ports.front()];
  if (byPort.front().empty())
    return emitError(first.getLoc())
           << first.describe() << " cannot be placed on all axes of the mesh as it is annotated";
  result.groupSizes.push_back(byPort.front().size());
  for (auto [list, number] : llvm::zip_equal(byPort, group.ports)) {
    const Port &port = graph.ports[number];
    (port.isResult ? result.taken[port.use] : result.made[port.value]) = result.lists(list);
  }
  return success();
}

LogicalResult JointChoices::Builder::run() {
  result.graph = &graph;
  result.made.resize(graph.values.size());
  result.taken.resize(graph.uses.size());
  for (MeshAxis axis : axes) {
    FailureOr<Candidates> candidates = Candidates::collect(graph, axis, {}, Reach::Everything);
    if (failed(candidates))
      return failure();
    result.candidates.push_back(std::move(*candidates));
  }
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    if (failed(addOp(number)))
      return failure();
    const OpClass &shared = result.classes[result.classOf[number]];
    for (auto [use, list] : llvm::zip_equal(op.operands, shared.operands))
      if (use != kNone)
        result.taken[use] = list;
    for (auto [value, list] : llvm::zip_equal(op.results, shared.results))
      if (value != kNone)
        result.made[value] = list;
  }
  for (unsigned group = 0; group < graph.groups.size(); ++group)
    if (failed(addGroup(group)))
      return failure();
  return success();
}

FailureOr<JointChoices> JointChoices::collect(const Graph &graph, ArrayRef<MeshAxis> axes) {
  Builder builder(graph, axes);
  if (failed(builder.run()))
    return failure();
  return std::move(builder.result);
}
