//===- RedistributionSearch.cpp ----------------------------------------------===//

#include "lib/placement/RedistributionSearch.h"

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

Letter placement::toLetter(const AxisPlacement &p) {
  return static_cast<Letter>(p.kind) << 28 | static_cast<Letter>(p.reduction) << 24 |
         static_cast<Letter>(p.dim) << 12 | static_cast<Letter>(p.order);
}

AxisPlacement placement::fromLetter(Letter letter) {
  return {static_cast<dist::PlacementKind>(letter >> 28),
          static_cast<dist::Reduction>(letter >> 24 & 0xf), letter >> 12 & 0xfff, letter & 0xfff};
}

/// Where the word stands, or would.
size_t Words::slotOf(ArrayRef<Letter> word) const {
  uint64_t hash = 0;
  for (Letter letter : word)
    hash = (hash ^ letter) * 0x9e3779b97f4a7c15;
  size_t slot = hash >> 32 & (slots.size() - 1);
  while (slots[slot] != none && (*this)[slots[slot]] != word)
    slot = (slot + 1) & (slots.size() - 1);
  return slot;
}

std::pair<unsigned, bool> Words::add(ArrayRef<Letter> word) {
  size_t slot = slotOf(word);
  if (slots[slot] != none)
    return {slots[slot], false};
  llvm::append_range(letters, word);
  slots[slot] = count++;
  if (2 * size_t(count) > slots.size()) {
    slots.assign(2 * slots.size(), none);
    for (unsigned number = 0; number < count; ++number)
      slots[slotOf((*this)[number])] = number;
  }
  return {count - 1, true};
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

RedistributionGraph::RedistributionGraph(RankedTensorType type, ArrayRef<AxisPlacement> to,
                                         ArrayRef<char> staysWhole, ArrayRef<MeshAxis> axes)
    : type(type), wholeBytes(dist::bytesOf(type)), to(to), staysWhole(staysWhole), axes(axes),
      states(axes.size()), sharding(type.getRank()), parts(type.getRank()) {}

unsigned RedistributionGraph::numberOf(ArrayRef<AxisPlacement> state) {
  SmallVector<Letter, 8> letters;
  for (const AxisPlacement &entry : state)
    letters.push_back(toLetter(entry));
  return states.add(letters).first;
}

RedistributionGraph::State RedistributionGraph::stateOf(unsigned number) const {
  State state;
  for (Letter letter : states[number])
    state.push_back(fromLetter(letter));
  return state;
}

/// Whether the dimension's parts can be cut once more, among so many ranks.
bool RedistributionGraph::divides(int64_t dim, int64_t ranks) const {
  int64_t size = type.getDimSize(dim);
  if (size % (ranks * parts[dim]) == 0)
    return true;
  return parts[dim] == 1 && llvm::any_of(axes, [&](const MeshAxis &axis) {
           return axis.size == ranks && canShard(size, axis);
         });
}

/// The edge that gives the axes `along`, major first, the placement `target`; a shard's order is
/// what follows the axes that shard the dimension already.
void RedistributionGraph::add(Kind kind, ArrayRef<unsigned> along, AxisPlacement target,
                              int64_t bytes, dist::Reduction reduction, int64_t gathered) {
  next = word;
  if (target.isShard())
    target.order = sharding[target.dim].size();
  for (unsigned axis : along) {
    next[axis] = toLetter(target);
    target.order += target.isShard();
  }
  edges.push_back({states.add(next).first, kind, reduction, static_cast<unsigned>(overAxes.size()),
                   static_cast<unsigned>(along.size()), bytes, gathered, target.dim});
  llvm::append_range(overAxes, along);
}

/// What a rank sends when its `bytes` are cut in `ranks` parts, of which it keeps one.
static int64_t exchanged(int64_t bytes, int64_t ranks) {
  return llvm::divideCeil(bytes * (ranks - 1), ranks);
}

/// reduce_scatter over `chosen` and every longer list of `candidates`: the list's order is that of
/// the shards.
void RedistributionGraph::scatterOrders(dist::Reduction reduction, ArrayRef<unsigned> candidates,
                                        SmallVectorImpl<unsigned> &chosen) {
  if (!chosen.empty()) {
    int64_t ranks = ranksOf(chosen);
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (divides(dim, ranks))
        add(Kind::ReduceScatter, chosen, AxisPlacement::shard(dim), exchanged(localBytes, ranks),
            reduction);
  }
  for (unsigned axis : candidates) {
    if (llvm::is_contained(chosen, axis))
      continue;
    chosen.push_back(axis);
    scatterOrders(reduction, candidates, chosen);
    chosen.pop_back();
  }
}

void RedistributionGraph::reducePartials() {
  // By reduction: sums and averages may stand side by side.
  SmallVector<std::pair<dist::Reduction, SmallVector<unsigned, 4>>, 2> groups;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (!state[axis].isPartial())
      continue;
    auto *group =
        llvm::find_if(groups, [&](auto &group) { return group.first == state[axis].reduction; });
    if (group == groups.end())
      group = &groups.emplace_back(state[axis].reduction, SmallVector<unsigned, 4>());
    group->second.push_back(axis);
  }
  for (auto &[reduction, partial] : groups) {
    for (unsigned subset = 1; subset < 1u << partial.size(); ++subset) {
      SmallVector<unsigned, 4> over;
      for (auto [i, axis] : llvm::enumerate(partial))
        if (subset >> i & 1)
          over.push_back(axis);
      add(Kind::AllReduce, over, AxisPlacement::replicate(),
          2 * exchanged(localBytes, ranksOf(over)), reduction);
    }
    SmallVector<unsigned, 4> chosen;
    scatterOrders(reduction, partial, chosen);
  }
}

void RedistributionGraph::moveShards() {
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    ArrayRef<unsigned> all = sharding[dim];
    // Minor axes first: the last ones, one or more.
    for (unsigned count = 1; count <= all.size(); ++count) {
      ArrayRef<unsigned> over = all.take_back(count);
      int64_t ranks = ranksOf(over);
      add(Kind::AllGather, over, AxisPlacement::replicate(), localBytes * (ranks - 1),
          dist::Reduction::Sum, dim);
      for (int64_t other = 0; other < type.getRank(); ++other)
        if (other != dim && divides(other, ranks))
          add(Kind::AllToAll, over, AxisPlacement::shard(other), exchanged(localBytes, ranks),
              dist::Reduction::Sum, dim);
    }
    if (!all.empty() && to[all.back()].isPartialSum())
      add(Kind::Convert, all.back(), AxisPlacement::partial(), 0, dist::Reduction::Sum, dim);
  }
}

void RedistributionGraph::convert() {
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    if (!state[axis].isReplicate())
      continue;
    if (to[axis].isPartialSum())
      add(Kind::Convert, axis, AxisPlacement::partial(), 0);
    else if (to[axis].isPartial() && to[axis].reduction != dist::Reduction::Product)
      add(Kind::Reinterpret, axis, to[axis], 0, to[axis].reduction);
    // What is and stays replicated is no help to others: an all_reduce would become three ops.
    if (staysWhole[axis])
      continue;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (divides(dim, axes[axis].size))
        add(Kind::Convert, axis, AxisPlacement::shard(dim), 0);
  }
}

/// Pending reductions that stand side by side are equal, or sums and averages (docs/types.md).
bool RedistributionGraph::isLegal() const {
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

void RedistributionGraph::expand(unsigned number) {
  word.assign(states[number].begin(), states[number].end());
  state = stateOf(number);
  if (!isLegal())
    return;
  // Bytes of a rank that holds most. Rounded up, so that scattering and gathering never seems to
  // send less than reducing.
  int64_t allParts = 1;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    sharding[dim].clear();
    for (unsigned axis = 0; axis < axes.size(); ++axis)
      if (state[axis].isShard(dim))
        sharding[dim].push_back(axis);
    llvm::sort(sharding[dim],
               [&](unsigned a, unsigned b) { return state[a].order < state[b].order; });
    parts[dim] = ranksOf(sharding[dim]);
    allParts *= parts[dim];
  }
  localBytes = llvm::divideCeil(wholeBytes, allParts);
  reducePartials();
  moveShards();
  convert();
}

std::pair<unsigned, unsigned> RedistributionGraph::getEdges(unsigned number) {
  if (number >= edgesOf.size())
    edgesOf.resize(number + 1);
  if (!edgesOf[number]) {
    unsigned first = edges.size();
    expand(number);
    edgesOf[number] = {first, static_cast<unsigned>(edges.size())};
  }
  return *edgesOf[number];
}

RedistributionStep RedistributionGraph::getStep(unsigned number) const {
  const Edge &edge = edges[number];
  RedistributionStep step{edge.kind, {}, edge.reduction, edge.gathered, edge.scattered, {}};
  for (unsigned axis : ArrayRef(overAxes).slice(edge.firstAxis, edge.axisCount))
    step.axes.push_back(axes[axis].name);
  llvm::append_range(step.result, stateOf(edge.target));
  return step;
}

//===----------------------------------------------------------------------===//
// Ways
//===----------------------------------------------------------------------===//

RedistributionSearch::RedistributionSearch(RedistributionGraph &graph, ArrayRef<AxisPlacement> from)
    : graph(graph), isPossible(graph.isPossible(from)) {
  unsigned state = graph.numberOf(from);
  nodeOf(state) = 0;
  nodes.push_back({state, Cost()});
  open.push({Cost(), 0});
}

void RedistributionSearch::expand(unsigned node) {
  auto [first, end] = graph.getEdges(nodes[node].state);
  for (unsigned number = first; number < end; ++number) {
    const RedistributionGraph::Edge &edge = graph.getEdge(number);
    Cost cost = nodes[node].cost;
    cost.bytes += edge.bytes;
    cost.collectives += edge.kind < RedistributionStep::Kind::Convert;
    cost.steps += 1;
    unsigned &target = nodeOf(edge.target);
    if (target == none) {
      target = nodes.size();
      nodes.emplace_back();
    } else if (nodes[target].cost <= cost) {
      continue;
    }
    nodes[target] = {edge.target, cost, node, number};
    open.push({cost, target});
  }
}

Redistribution RedistributionSearch::getWay(unsigned node) const {
  Redistribution plan{{}, nodes[node].cost.bytes, nodes[node].cost.collectives};
  for (unsigned at = node; at != 0; at = nodes[at].previous)
    plan.steps.push_back(graph.getStep(nodes[at].edge));
  std::reverse(plan.steps.begin(), plan.steps.end());
  return plan;
}

std::optional<Redistribution> RedistributionSearch::find(ArrayRef<AxisPlacement> target) {
  if (!isPossible || !graph.isPossible(target))
    return std::nullopt;
  unsigned wanted = graph.numberOf(target);
  if (unsigned known = nodeOf(wanted); known != none && nodes[known].isDone)
    return getWay(known);
  while (!open.empty()) {
    auto [cost, node] = open.top();
    open.pop();
    if (nodes[node].isDone || cost != nodes[node].cost)
      continue;
    nodes[node].isDone = true;
    expand(node);
    if (nodes[node].state == wanted)
      return getWay(node);
  }
  return std::nullopt;
}
