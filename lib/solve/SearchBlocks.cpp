//===- SearchBlocks.cpp - moves of regions ----------------------------------===//

#include "lib/solve/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::solve;

static constexpr unsigned none = ~0u;
/// Regions and the largest table of each differ, between these, in all orders of magnitude alike.
static constexpr double leastRegion = 16, mostRegion = 512;
static constexpr double leastEntries = 0x1p10, mostEntries = 0x1p17;

/// Random nodes that hang together.
void Search::growRegion(unsigned root, unsigned size) {
  tree.clear();
  frontier.clear();
  touched.clear();
  frontier.push_back(root);
  positionInTree[root] = 0;
  touched.push_back(root);
  while (!frontier.empty() && tree.size() < size) {
    size_t pick = random() % frontier.size();
    unsigned node = frontier[pick];
    frontier[pick] = frontier.back();
    frontier.pop_back();
    tree.push_back({node, 0, nullptr, 0, 0});
    llvm::ArrayRef<Link> neighbours = getLinks(node);
    // Of many neighbours, a random stretch.
    size_t count = std::min<size_t>(neighbours.size(), size);
    size_t start = count < neighbours.size() ? random() % neighbours.size() : 0;
    for (size_t i = 0; i < count; ++i) {
      unsigned other = neighbours[(start + i) % neighbours.size()].other;
      if (positionInTree[other] != none || problem.getNodes()[other].size == 1)
        continue;
      positionInTree[other] = 0;
      touched.push_back(other);
      frontier.push_back(other);
    }
  }
  for (unsigned node : touched)
    positionInTree[node] = none;
}

void Search::orderRegion(double mostEntries) {
  std::vector<unsigned> sizes;
  std::vector<std::pair<unsigned, unsigned>> pairs;
  for (auto [position, entry] : llvm::enumerate(tree)) {
    positionInTree[entry.node] = position;
    sizes.push_back(problem.getNodes()[entry.node].size);
    for (const Link &link : getLinks(entry.node))
      if (positionInTree[link.other] < position)
        pairs.emplace_back(position, positionInTree[link.other]);
  }
  // The one with the larger table of two: nodes with many neighbours first, but none always.
  std::vector<unsigned> order =
      EliminationOrder(sizes, pairs)
          .find(mostEntries, [&](llvm::ArrayRef<unsigned> left, llvm::ArrayRef<double> entries) {
            size_t one = random() % left.size(), other = random() % left.size();
            return entries[left[one]] > entries[left[other]] ? one : other;
          });
  for (const TreeNode &entry : tree)
    positionInTree[entry.node] = none;
  std::vector<TreeNode> whole;
  std::swap(whole, tree);
  for (unsigned position : order)
    tree.push_back(whole[position]);
  blockPairs.clear();
  for (auto [position, entry] : llvm::enumerate(tree)) {
    positionInTree[entry.node] = position;
    for (const Link &link : getLinks(entry.node))
      if (positionInTree[link.other] < position)
        blockPairs.push_back({positionInTree[link.other], static_cast<unsigned>(position), &link});
  }
  for (const TreeNode &entry : tree)
    positionInTree[entry.node] = none;
}

/// As changeOf() for a tree.
std::optional<double> Search::changeOfBlock(const Stage &stage) {
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  size_t total = 0;
  for (TreeNode &entry : tree) {
    entry.offset = total;
    total += nodes[entry.node].size;
    shift(entry.node, present[entry.node], least);
  }
  if (tables.size() < total)
    tables.resize(total);
  double before = 0;
  for (const TreeNode &entry : tree)
    setBase(entry.node, stage, &tables[entry.offset]);
  // Without the block's own edges, which stand in `given` at both ends.
  for (const BlockPair &pair : blockPairs) {
    const TreeNode &first = tree[pair.first], &second = tree[pair.second];
    unsigned firstSize = nodes[first.node].size, secondSize = nodes[second.node].size;
    // The link is the second's.
    const double *toSecond = pair.link->toOwn + size_t(present[first.node]) * secondSize;
    const double *toFirst = pair.link->toOther + size_t(present[second.node]) * firstSize;
    before += toSecond[present[second.node]];
    for (unsigned choice = 0; choice < secondSize; ++choice)
      tables[second.offset + choice] -= toSecond[choice];
    for (unsigned choice = 0; choice < firstSize; ++choice)
      tables[first.offset + choice] -= toFirst[choice];
  }
  double extra = random() % 2 ? 0 : stage.price * (std::exp(4 * uniform() - 2) - 1);
  // So many nodes at once would rarely be better with noise at each of them.
  Stage noise = stage;
  noise.temperature = random() % 2 ? 0 : stage.temperature * uniform();
  elimination.clear();
  for (const TreeNode &entry : tree) {
    unsigned size = nodes[entry.node].size;
    before += tables[entry.offset + present[entry.node]];
    scores.assign(&tables[entry.offset], &tables[entry.offset] + size);
    perturb(entry.node, noise, extra, scores.data());
    elimination.addVariable(scores);
  }
  for (const BlockPair &pair : blockPairs)
    elimination.addPair(pair.first, pair.second, pair.link->toOther);
  blockWork += static_cast<double>(elimination.run());
  std::vector<unsigned> choices(tree.size());
  llvm::SmallVector<double> costs;
  double after = 0;
  for (size_t position = tree.size(); position-- > 0;) {
    TreeNode &entry = tree[position];
    elimination.getCosts(position, choices, costs);
    std::optional<unsigned> choice = pick(entry.node, costs.data());
    if (!choice) {
      for (size_t later = position + 1; later < tree.size(); ++later)
        shift(tree[later].node, tree[later].next, least);
      for (const TreeNode &other : tree)
        shift(other.node, least, present[other.node]);
      return std::nullopt;
    }
    entry.next = choices[position] = *choice;
    shift(entry.node, least, *choice);
    after += tables[entry.offset + *choice];
  }
  for (const BlockPair &pair : blockPairs) {
    unsigned size = nodes[tree[pair.second].node].size;
    after += pair.link->toOwn[size_t(tree[pair.first].next) * size + tree[pair.second].next];
  }
  return after - before;
}

void Search::moveBlock(const Stage &stage) {
  auto between = [&](double low, double high) { return low * std::pow(high / low, uniform()); };
  growRegion(movable[random() % movable.size()],
             static_cast<unsigned>(between(leastRegion, mostRegion)));
  // Finding the order takes time, too.
  blockWork += 1000.0 * static_cast<double>(tree.size());
  orderRegion(between(leastEntries, mostEntries));
  if (std::optional<double> change = changeOfBlock(stage))
    accept(stage, *change);
}
