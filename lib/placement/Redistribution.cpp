//===- Redistribution.cpp - from one placement to another, cheaply -----------===//
//
// Dijkstra's search over the placements of one value. A state is a placement on each axis; an edge
// is one `dist` op over one or more axes, or a conversion on one. With the two to four axes of a
// mesh and the few dimensions of a tensor there are some hundred states. Programs ask the same
// few questions again and again; who places them on all axes at once asks for all pairs.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/Redistribution.h"

#include "dialects/dist/Verify.h"

#include <queue>
#include <unordered_map>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;
using Kind = RedistributionStep::Kind;

using State = SmallVector<AxisPlacement, 2>;

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

namespace {

/// Bytes first, then collectives, then steps.
struct Cost {
  int64_t bytes = 0;
  unsigned collectives = 0;
  unsigned steps = 0;

  auto operator<=>(const Cost &) const = default;
};

/// A state as numbers, to be compared fast: a letter an axis.
using Code = std::u32string;

Code encode(ArrayRef<AxisPlacement> state) {
  Code code;
  for (const AxisPlacement &p : state)
    code.push_back(static_cast<char32_t>(p.kind) << 24 | static_cast<char32_t>(p.reduction) << 16 |
                   static_cast<char32_t>(p.dim) << 8 | static_cast<char32_t>(p.order));
  return code;
}

/// Of a target all that decides which edges there are: searches for others like it are the same.
Code encodeKind(ArrayRef<AxisPlacement> state) {
  Code code;
  for (const AxisPlacement &p : state)
    code.push_back(static_cast<char32_t>(p.kind) << 8 |
                   (p.isPartial() ? static_cast<char32_t>(p.reduction) : 0));
  return code;
}

/// From one placement to any of a kind. It goes on where it was when the last target was reached.
class Search {
public:
  Search(RankedTensorType type, ArrayRef<AxisPlacement> from, ArrayRef<AxisPlacement> to,
         ArrayRef<MeshAxis> axes)
      : type(type), from(from), to(to), axes(axes) {
    nodes.emplace_back().state = this->from;
    known[encode(from)] = 0;
    open.push({Cost(), 0});
  }

  std::optional<Redistribution> find(ArrayRef<AxisPlacement> target);

private:
  struct Node {
    State state;
    Cost cost;
    /// The node before, and the step from it.
    unsigned previous = 0;
    Kind kind = Kind::Convert;
    SmallVector<unsigned, 2> along;
    dist::Reduction reduction = dist::Reduction::Sum;
    int64_t gathered = 0, scattered = 0;
    bool isDone = false;
  };

  int64_t ranksOf(ArrayRef<unsigned> along) const {
    int64_t ranks = 1;
    for (unsigned axis : along)
      ranks *= axes[axis].size;
    return ranks;
  }
  int64_t localBytes(const State &state) const;
  bool divides(const State &state, int64_t dim, int64_t ranks) const;
  /// The axes that shard `dim`, major first.
  SmallVector<unsigned, 4> sharding(const State &state, int64_t dim) const;

  void expand(unsigned node);
  void reducePartials(unsigned node);
  void moveShards(unsigned node);
  void convert(unsigned node);
  void scatterOrders(unsigned node, dist::Reduction reduction, ArrayRef<unsigned> candidates,
                     SmallVectorImpl<unsigned> &chosen);
  RedistributionStep getStep(const Node &node) const;
  void add(unsigned node, Kind kind, ArrayRef<unsigned> along, AxisPlacement next, int64_t bytes,
           dist::Reduction reduction = dist::Reduction::Sum, int64_t gathered = 0);

  Redistribution getWay(unsigned node) const;

  RankedTensorType type;
  State from, to;
  ArrayRef<MeshAxis> axes;
  std::vector<Node> nodes;
  std::unordered_map<Code, unsigned> known;
  using Entry = std::pair<Cost, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
};

} // namespace

/// Of a rank that holds most. Rounded up, so that scattering and gathering never seems to send less
/// than reducing.
int64_t Search::localBytes(const State &state) const {
  int64_t parts = 1;
  for (auto [entry, axis] : llvm::zip_equal(state, axes))
    if (entry.isShard())
      parts *= axis.size;
  return llvm::divideCeil(dist::bytesOf(type), parts);
}

bool Search::divides(const State &state, int64_t dim, int64_t ranks) const {
  int64_t size = type.getDimSize(dim);
  int64_t all = ranks;
  bool mayBeUneven = false;
  for (auto [entry, axis] : llvm::zip_equal(state, axes)) {
    if (entry.isShard(dim))
      all *= axis.size;
    mayBeUneven |= axis.size == ranks && canShard(size, axis);
  }
  return size % all == 0 || (all == ranks && mayBeUneven);
}

SmallVector<unsigned, 4> Search::sharding(const State &state, int64_t dim) const {
  SmallVector<unsigned, 4> found;
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    if (state[axis].isShard(dim))
      found.push_back(axis);
  llvm::sort(found, [&](unsigned a, unsigned b) { return state[a].order < state[b].order; });
  return found;
}

/// The edge that gives the axes `along`, major first, the placement `next`; a shard's order is what
/// follows the axes that shard the dimension already.
void Search::add(unsigned node, Kind kind, ArrayRef<unsigned> along, AxisPlacement next,
                 int64_t bytes, dist::Reduction reduction, int64_t gathered) {
  State state = nodes[node].state;
  int64_t order = next.isShard() ? sharding(state, next.dim).size() : 0;
  for (unsigned axis : along) {
    state[axis] = next;
    if (next.isShard())
      state[axis].order = order++;
  }
  Cost cost = nodes[node].cost;
  cost.bytes += bytes;
  cost.collectives += kind < Kind::Convert;
  cost.steps += 1;
  auto [it, isNew] = known.try_emplace(encode(state), nodes.size());
  if (isNew)
    nodes.emplace_back();
  else if (nodes[it->second].cost <= cost)
    return;
  Node &target = nodes[it->second];
  target = {std::move(state), cost,     node,     kind, SmallVector<unsigned, 2>(along),
            reduction,        gathered, next.dim, false};
  open.push({cost, it->second});
}

/// The one that leads to the node.
RedistributionStep Search::getStep(const Node &node) const {
  RedistributionStep step{node.kind, {}, node.reduction, node.gathered, node.scattered, node.state};
  for (unsigned axis : node.along)
    step.axes.push_back(axes[axis].name);
  return step;
}

/// What a rank sends when its `bytes` are cut in `ranks` parts, of which it keeps one.
static int64_t exchanged(int64_t bytes, int64_t ranks) {
  return llvm::divideCeil(bytes * (ranks - 1), ranks);
}

/// reduce_scatter over `chosen` and every longer list of `candidates`: the list's order is that of
/// the shards.
void Search::scatterOrders(unsigned node, dist::Reduction reduction, ArrayRef<unsigned> candidates,
                           SmallVectorImpl<unsigned> &chosen) {
  if (!chosen.empty()) {
    int64_t ranks = ranksOf(chosen), bytes = localBytes(nodes[node].state);
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (divides(nodes[node].state, dim, ranks))
        add(node, Kind::ReduceScatter, chosen, AxisPlacement::shard(dim), exchanged(bytes, ranks),
            reduction);
  }
  for (unsigned axis : candidates) {
    if (llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    scatterOrders(node, reduction, candidates, chosen);
    chosen.pop_back();
  }
}

void Search::reducePartials(unsigned node) {
  // By reduction: sums and averages may stand side by side.
  SmallVector<std::pair<dist::Reduction, SmallVector<unsigned, 4>>, 2> groups;
  const State state = nodes[node].state;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (!state[axis].isPartial())
      continue;
    auto *group =
        llvm::find_if(groups, [&](auto &group) { return group.first == state[axis].reduction; });
    if (group == groups.end())
      group = &groups.emplace_back(state[axis].reduction, SmallVector<unsigned, 4>());
    group->second.push_back(axis);
  }
  int64_t bytes = localBytes(state);
  for (auto &[reduction, partial] : groups) {
    for (unsigned subset = 1; subset < 1u << partial.size(); ++subset) {
      SmallVector<unsigned, 4> along;
      for (auto [i, axis] : llvm::enumerate(partial))
        if (subset >> i & 1)
          along.push_back(axis);
      add(node, Kind::AllReduce, along, AxisPlacement::replicate(),
          2 * exchanged(bytes, ranksOf(along)), reduction);
    }
    SmallVector<unsigned, 4> chosen;
    scatterOrders(node, reduction, partial, chosen);
  }
}

void Search::moveShards(unsigned node) {
  const State state = nodes[node].state;
  int64_t bytes = localBytes(state);
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    SmallVector<unsigned, 4> all = sharding(state, dim);
    // Minor axes first: the last ones, one or more.
    for (unsigned count = 1; count <= all.size(); ++count) {
      ArrayRef<unsigned> along = ArrayRef(all).take_back(count);
      int64_t ranks = ranksOf(along);
      add(node, Kind::AllGather, along, AxisPlacement::replicate(), bytes * (ranks - 1),
          dist::Reduction::Sum, dim);
      for (int64_t next = 0; next < type.getRank(); ++next)
        if (next != dim && divides(state, next, ranks))
          add(node, Kind::AllToAll, along, AxisPlacement::shard(next), exchanged(bytes, ranks),
              dist::Reduction::Sum, dim);
    }
    if (!all.empty() && to[all.back()].isPartialSum())
      add(node, Kind::Convert, all.back(), AxisPlacement::partial(), 0, dist::Reduction::Sum, dim);
  }
}

void Search::convert(unsigned node) {
  const State state = nodes[node].state;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (!state[axis].isReplicate())
      continue;
    if (to[axis].isPartialSum())
      add(node, Kind::Convert, axis, AxisPlacement::partial(), 0);
    else if (to[axis].isPartial() && to[axis].reduction != dist::Reduction::Product)
      add(node, Kind::Reinterpret, axis, to[axis], 0, to[axis].reduction);
    // What is and stays replicated is no help to others: an all_reduce would become three ops.
    if (from[axis].isReplicate() && to[axis].isReplicate())
      continue;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (divides(state, dim, axes[axis].size))
        add(node, Kind::Convert, axis, AxisPlacement::shard(dim), 0);
  }
}

/// Pending reductions that stand side by side are equal, or sums and averages (docs/types.md).
static bool isLegal(ArrayRef<AxisPlacement> state) {
  const AxisPlacement *first = nullptr;
  auto isLinear = [](const AxisPlacement &p) {
    return p.reduction == dist::Reduction::Sum || p.reduction == dist::Reduction::Avg;
  };
  for (const AxisPlacement &entry : state) {
    if (!entry.isPartial())
      continue;
    if (first && entry.reduction != first->reduction && !(isLinear(entry) && isLinear(*first)))
      return false;
    first = &entry;
  }
  return true;
}

void Search::expand(unsigned node) {
  if (!isLegal(nodes[node].state))
    return;
  reducePartials(node);
  moveShards(node);
  convert(node);
}

Redistribution Search::getWay(unsigned node) const {
  Redistribution plan{{}, nodes[node].cost.bytes, nodes[node].cost.collectives};
  for (unsigned at = node; at != 0; at = nodes[at].previous)
    plan.steps.push_back(getStep(nodes[at]));
  std::reverse(plan.steps.begin(), plan.steps.end());
  return plan;
}

std::optional<Redistribution> Search::find(ArrayRef<AxisPlacement> target) {
  if (!localShape(type.getShape(), from, axes) || !localShape(type.getShape(), target, axes))
    return std::nullopt;
  const Code wanted = encode(target);
  if (auto it = known.find(wanted); it != known.end() && nodes[it->second].isDone)
    return getWay(it->second);
  while (!open.empty()) {
    auto [cost, node] = open.top();
    open.pop();
    if (nodes[node].isDone || cost != nodes[node].cost)
      continue;
    nodes[node].isDone = true;
    bool isFound = encode(nodes[node].state) == wanted;
    expand(node);
    if (isFound)
      return getWay(node);
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The planner
//===----------------------------------------------------------------------===//

struct RedistributionPlanner::Memory {
  using Key = std::tuple<const void *, Code, Code>;
  struct Hash {
    size_t operator()(const Key &key) const {
      std::hash<Code> hash;
      return llvm::hash_combine(std::get<0>(key), hash(std::get<1>(key)), hash(std::get<2>(key)));
    }
  };
  /// By shape and element type, `from` and `to`.
  std::unordered_map<Key, std::optional<Redistribution>, Hash> plans;
  /// By shape and element type, `from` and the kind of `to`.
  std::unordered_map<Key, Search, Hash> searches;
};

RedistributionPlanner::RedistributionPlanner(ArrayRef<MeshAxis> axes)
    : axes(axes), memory(std::make_unique<Memory>()) {}
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
  type = RankedTensorType::get(type.getShape(), type.getElementType());
  const void *shape = type.getAsOpaquePointer();
  auto [it, isNew] = memory->plans.try_emplace({shape, encode(from), encode(to)});
  if (isNew)
    it->second =
        memory->searches.try_emplace({shape, encode(from), encodeKind(to)}, type, from, to, axes)
            .first->second.find(to);
  return it->second ? &*it->second : nullptr;
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
