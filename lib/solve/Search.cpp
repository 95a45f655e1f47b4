//===- Search.cpp - moves of trees -----------------------------------------===//

#include "lib/solve/Search.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::solve;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr unsigned none = ~0u;

Search::Search(const Problem &problem, const LiveRanges &live, uint64_t seed)
    : problem(problem), live(live), random(seed), priced(problem.getCosts().size()),
      given(problem.getCosts().size()), memory(live.times.size()),
      treeNeighbours(problem.getNodes().size()), positionInTree(problem.getNodes().size(), none) {
  // In units in which all costs together are exact in a double, with room for what is forbidden.
  double all = 0, allUsage = 0;
  std::vector<double> largest;
  for (const Matrix &matrix : problem.getMatrices()) {
    double most = 0;
    for (int64_t cost : matrix.costs)
      if (cost != forbidden)
        most = std::max(most, std::abs(static_cast<double>(cost)));
    largest.push_back(most);
  }
  for (const Edge &edge : problem.getEdges())
    all += largest[edge.matrix];
  for (unsigned node = 0; node < problem.getNodes().size(); ++node) {
    double most = 0;
    for (int64_t cost : problem.getCosts(node))
      if (cost != forbidden)
        most = std::max(most, std::abs(static_cast<double>(cost)));
    all += most;
    allUsage += static_cast<double>(*llvm::max_element(problem.getUsages(node)));
  }
  forbiddenCost = 0x1p44;
  unit = all <= 0x1p43 ? 1 : std::exp2(std::ceil(std::log2(all)) - 43);
  usageUnit = allUsage <= 0x1p52 ? 1 : std::exp2(std::ceil(std::log2(allUsage)) - 52);
  limit = std::floor(static_cast<double>(problem.limit) / usageUnit);
  auto scaled = [&](int64_t cost) {
    return cost == forbidden ? forbiddenCost : std::round(static_cast<double>(cost) / unit);
  };
  for (int64_t cost : problem.getCosts())
    costs.push_back(scaled(cost));
  for (int64_t usage : problem.getUsages())
    usages.push_back(std::ceil(static_cast<double>(usage) / usageUnit));
  for (const Matrix &matrix : problem.getMatrices()) {
    auto &byRow = rows.emplace_back(), &byColumn = columns.emplace_back();
    for (int64_t cost : matrix.costs)
      byRow.push_back(scaled(cost));
    for (size_t column = 0; column < matrix.columns; ++column)
      for (size_t row = 0; row < matrix.rows; ++row)
        byColumn.push_back(byRow[row * matrix.columns + column]);
  }
  firstLink.assign(problem.getNodes().size() + 1, 0);
  for (const Edge &edge : problem.getEdges()) {
    ++firstLink[edge.first + 1];
    ++firstLink[edge.second + 1];
  }
  for (size_t node = 1; node < firstLink.size(); ++node)
    firstLink[node] += firstLink[node - 1];
  links.resize(firstLink.back());
  std::vector<size_t> nextLink(firstLink.begin(), firstLink.end() - 1);
  size_t message = 0;
  for (const Edge &edge : problem.getEdges()) {
    const double *byRow = rows[edge.matrix].data(), *byColumn = columns[edge.matrix].data();
    links[nextLink[edge.first]++] = {edge.second, message, byColumn, byRow};
    message += problem.getNodes()[edge.first].size;
    links[nextLink[edge.second]++] = {edge.first, message, byRow, byColumn};
    message += problem.getNodes()[edge.second].size;
  }
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    if (node.size > 1)
      movable.push_back(number);
    auto begin = usages.begin() + node.offset;
    unsigned least = 0;
    for (unsigned choice = 1; choice < node.size; ++choice)
      if (std::tie(begin[choice], costs[node.offset + choice]) <
          std::tie(begin[least], costs[node.offset + least]))
        least = choice;
    present.push_back(least);
  }
  noise.resize(1 << 12);
  for (size_t i = 0; i < noise.size(); ++i)
    noise[i] =
        std::log(-std::log((static_cast<double>(i) + 0.5) / static_cast<double>(noise.size())));
  for (auto [node, choice] : llvm::enumerate(present))
    if (!live.ranges[node].isEmpty())
      memory.add(live.ranges[node], usages[problem.getNodes()[node].offset + choice]);
  rebuild();
  keepBest();
}

void Search::setPrices(llvm::ArrayRef<double> prices) {
  std::vector<double> sums{0};
  for (double price : prices)
    sums.push_back(sums.back() + price);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    double price = sums[live.ranges[number].last] - sums[live.ranges[number].first];
    for (size_t choice = node.offset; choice < node.offset + node.size; ++choice)
      priced[choice] = price * usages[choice] * usageUnit / unit;
  }
}

void Search::setAssignment(llvm::ArrayRef<unsigned> assignment) {
  for (auto [node, choice] : llvm::enumerate(assignment)) {
    size_t offset = problem.getNodes()[node].offset;
    double change = usages[offset + choice] - usages[offset + present[node]];
    if (change != 0 && !live.ranges[node].isEmpty())
      memory.add(live.ranges[node], change);
    present[node] = choice;
  }
  rebuild();
  keepBest();
}

void Search::construct(llvm::ArrayRef<unsigned> order, llvm::ArrayRef<double> messages,
                       double price) {
  Assignment next = present;
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  // Those to come are counted with the least that they can use.
  std::vector<double> least(nodes.size());
  std::vector<char> isMade(nodes.size());
  for (auto [number, node] : llvm::enumerate(nodes)) {
    const double *usage = &usages[node.offset];
    least[number] = *std::min_element(usage, usage + node.size);
    if (double change = least[number] - usage[present[number]];
        change != 0 && !live.ranges[number].isEmpty())
      memory.add(live.ranges[number], change);
  }
  std::vector<double> scores;
  for (unsigned number : order) {
    const Node &node = nodes[number];
    scores.assign(&costs[node.offset], &costs[node.offset] + node.size);
    for (unsigned choice = 0; choice < node.size; ++choice)
      scores[choice] += price * priced[node.offset + choice];
    for (const Link &link : getLinks(number)) {
      const double *row = link.toOwn + size_t(next[link.other]) * node.size;
      for (unsigned choice = 0; choice < node.size; ++choice)
        scores[choice] +=
            isMade[link.other] ? row[choice] : messages[link.messages + choice] / unit;
    }
    PointRange range = live.ranges[number];
    const double *usage = &usages[node.offset];
    double room = range.isEmpty() ? infinity : limit - memory.getHighest(range) + least[number];
    unsigned best = none;
    for (unsigned choice = 0; choice < node.size; ++choice)
      if ((usage[choice] <= room || usage[choice] == least[number]) &&
          (best == none || scores[choice] < scores[best]))
        best = choice;
    if (usage[best] != least[number] && !range.isEmpty())
      memory.add(range, usage[best] - least[number]);
    next[number] = best;
    isMade[number] = 1;
  }
  present = std::move(next);
  rebuild();
  keepBest();
}

/// Sums again what moves keep up to date.
void Search::rebuild() {
  given = costs;
  energy = 0;
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    double *own = &given[node.offset];
    for (const Link &link : getLinks(number)) {
      const double *row = link.toOwn + size_t(present[link.other]) * node.size;
      for (unsigned choice = 0; choice < node.size; ++choice)
        own[choice] += row[choice];
      // Each edge once.
      if (link.other < number)
        energy += row[present[number]];
    }
    energy += costs[node.offset + present[number]];
  }
}

void Search::keepBest() {
  unsigned forbiddenPairs = static_cast<unsigned>(energy / forbiddenCost);
  if (bestForbidden != none && energy >= bestEnergy)
    return;
  bestForbidden = forbiddenPairs;
  bestEnergy = energy;
  best = present;
}

/// A random tree of neighbours: each of its nodes has one neighbour in it when it is added.
void Search::growTree(unsigned root, unsigned size) {
  tree.clear();
  touched.clear();
  frontier.clear();
  frontierLinks.clear();
  frontier.push_back(root);
  frontierLinks.push_back(nullptr);
  while (!frontier.empty() && tree.size() < size) {
    size_t pick = random() % frontier.size();
    unsigned node = frontier[pick];
    const Link *up = frontierLinks[pick];
    frontier[pick] = frontier.back();
    frontierLinks[pick] = frontierLinks.back();
    frontier.pop_back();
    frontierLinks.pop_back();
    if (positionInTree[node] != none || treeNeighbours[node] > 1)
      continue;
    unsigned position = tree.size();
    positionInTree[node] = position;
    unsigned parent = up ? positionInTree[up->other] : position;
    tree.push_back({node, parent, up, 0, 0, 0});
    touched.push_back(node);
    llvm::ArrayRef<Link> neighbours = getLinks(node);
    for (const Link &link : neighbours) {
      ++treeNeighbours[link.other];
      touched.push_back(link.other);
    }
    // Of many neighbours, a random stretch.
    size_t count = std::min<size_t>(neighbours.size(), size);
    size_t start = count < neighbours.size() ? random() % neighbours.size() : 0;
    for (size_t i = 0; i < count; ++i) {
      const Link &link = neighbours[(start + i) % neighbours.size()];
      if (positionInTree[link.other] != none || problem.getNodes()[link.other].size == 1)
        continue;
      // The link from the other end.
      const Link *back = nullptr;
      for (const Link &candidate : getLinks(link.other).take_front(8))
        if (candidate.other == node)
          back = &candidate;
      if (!back)
        back = llvm::find_if(getLinks(link.other),
                             [&](const Link &candidate) { return candidate.other == node; });
      frontier.push_back(link.other);
      frontierLinks.push_back(back);
    }
  }
  for (unsigned node : touched) {
    treeNeighbours[node] = 0;
    positionInTree[node] = none;
  }
}

/// Finds the tree's best choices, and sets memory to them; returns what they change in cost, and
/// memory at its price.
double Search::changeOf(const Stage &stage) {
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  size_t total = 0;
  for (TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    entry.offset = total;
    total += node.size;
    PointRange range = live.ranges[entry.node];
    const double *usage = &usages[node.offset];
    entry.leastUsage = *std::min_element(usage, usage + node.size);
    // Others leave it all the room that they can.
    if (double change = entry.leastUsage - usage[present[entry.node]];
        change != 0 && !range.isEmpty())
      memory.add(range, change);
  }
  if (tables.size() < 2 * total)
    tables.resize(2 * total);
  double *base = tables.data(), *table = tables.data() + total;
  double before = 0;
  for (const TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    double *own = base + entry.offset;
    std::copy_n(&given[node.offset], node.size, own);
    if (stage.price != 0)
      for (unsigned choice = 0; choice < node.size; ++choice)
        own[choice] += stage.price * priced[node.offset + choice];
  }
  // Without the tree's own edges, which stand in `given` at both ends.
  for (size_t position = 1; position < tree.size(); ++position) {
    const TreeNode &entry = tree[position];
    const TreeNode &parent = tree[entry.parent];
    unsigned size = nodes[entry.node].size, parentSize = nodes[parent.node].size;
    const double *row = entry.up->toOwn + size_t(present[parent.node]) * size;
    before += row[present[entry.node]];
    double *own = base + entry.offset;
    for (unsigned choice = 0; choice < size; ++choice)
      own[choice] -= row[choice];
    row = entry.up->toOther + size_t(present[entry.node]) * parentSize;
    own = base + parent.offset;
    for (unsigned choice = 0; choice < parentSize; ++choice)
      own[choice] -= row[choice];
  }
  // Memory at a higher price leaves room for what is decided last, at a lower one it fills what is
  // left over.
  double extra = random() % 2 ? 0 : stage.price * (std::exp(4 * uniform() - 2) - 1);
  for (const TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    before += base[entry.offset + present[entry.node]];
    double *own = table + entry.offset;
    std::copy_n(base + entry.offset, node.size, own);
    if (stage.temperature > 0)
      for (unsigned choice = 0; choice < node.size; ++choice)
        own[choice] += stage.temperature * gumbel();
    if (extra != 0)
      for (unsigned choice = 0; choice < node.size; ++choice)
        own[choice] += extra * priced[node.offset + choice];
    PointRange range = live.ranges[entry.node];
    if (range.isEmpty())
      continue;
    double room = limit - memory.getHighest(range) + entry.leastUsage;
    for (unsigned choice = 0; choice < node.size; ++choice)
      if (usages[node.offset + choice] > room)
        own[choice] = infinity;
  }
  for (size_t position = tree.size() - 1; position > 0; --position) {
    const TreeNode &entry = tree[position];
    const TreeNode &parent = tree[entry.parent];
    unsigned size = nodes[entry.node].size, parentSize = nodes[parent.node].size;
    message.assign(parentSize, infinity);
    const double *own = table + entry.offset;
    const double *row = entry.up->toOther;
    for (unsigned choice = 0; choice < size; ++choice, row += parentSize) {
      double offset = own[choice];
      if (offset == infinity)
        continue;
      for (unsigned partner = 0; partner < parentSize; ++partner) {
        double value = row[partner] + offset;
        message[partner] = value < message[partner] ? value : message[partner];
      }
    }
    double *up = table + parent.offset;
    for (unsigned partner = 0; partner < parentSize; ++partner)
      up[partner] += message[partner];
  }
  double after = 0;
  for (TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    const double *own = table + entry.offset;
    const double *row =
        entry.up ? entry.up->toOwn + size_t(tree[entry.parent].next) * node.size : nullptr;
    PointRange range = live.ranges[entry.node];
    const double *usage = &usages[node.offset];
    double room = range.isEmpty() ? infinity : limit - memory.getHighest(range) + entry.leastUsage;
    double least = infinity;
    unsigned choice = none;
    for (unsigned candidate = 0; candidate < node.size; ++candidate) {
      // The least usage always fits; where usages are rounded up it may seem not to.
      if (usage[candidate] > room && usage[candidate] != entry.leastUsage)
        continue;
      double value = row ? own[candidate] + row[candidate] : own[candidate];
      if (value < least || choice == none) {
        least = value;
        choice = candidate;
      }
    }
    entry.next = choice;
    if (usage[choice] != entry.leastUsage && !range.isEmpty())
      memory.add(range, usage[choice] - entry.leastUsage);
    after += base[entry.offset + choice] + (row ? row[choice] : 0);
  }
  return after - before;
}

void Search::apply() {
  for (const TreeNode &entry : tree) {
    unsigned old = present[entry.node];
    if (entry.next == old)
      continue;
    const Node &node = problem.getNodes()[entry.node];
    // The node's own sum knows its neighbours' present choices, changed ones of this tree included.
    energy += given[node.offset + entry.next] - given[node.offset + old];
    present[entry.node] = entry.next;
    for (const Link &link : getLinks(entry.node)) {
      const Node &other = problem.getNodes()[link.other];
      const double *added = link.toOther + size_t(entry.next) * other.size;
      const double *dropped = link.toOther + size_t(old) * other.size;
      double *sum = &given[other.offset];
      for (unsigned choice = 0; choice < other.size; ++choice)
        sum[choice] += added[choice] - dropped[choice];
    }
  }
}

void Search::move(const Stage &stage) {
  // Small trees are as likely as large ones. The large take whole parts of the graph along: nodes
  // with many neighbours are held where they are by those that do not move with them.
  bool isLarge = uniform() < 0.4;
  double most = static_cast<double>(isLarge ? std::max<size_t>(movable.size(), 64) : 64);
  unsigned size = static_cast<unsigned>(std::exp(uniform() * std::log(most)));
  growTree(movable[random() % movable.size()], size);
  double change = changeOf(stage);
  double allowed = stage.temperature > 0 ? -stage.temperature * std::log(1 - uniform()) : 0;
  if (change <= allowed) {
    apply();
    return;
  }
  for (const TreeNode &entry : tree) {
    const double *usage = &usages[problem.getNodes()[entry.node].offset];
    if (double back = usage[present[entry.node]] - usage[entry.next];
        back != 0 && !live.ranges[entry.node].isEmpty())
      memory.add(live.ranges[entry.node], back);
  }
}

void Search::run(llvm::function_ref<std::optional<Stage>()> next) {
  if (movable.empty())
    return;
  while (std::optional<Stage> stage = next()) {
    stage->temperature /= unit;
    for (unsigned i = 0; i < movesAtOnce; ++i)
      move(*stage);
    if (energy < bestEnergy)
      keepBest();
  }
}
