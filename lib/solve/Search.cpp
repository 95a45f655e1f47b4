//===- Search.cpp - moves of trees -----------------------------------------===//

#include "lib/solve/Search.h"
#include "lib/solve/Kernels.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::solve;

static constexpr double infinity = std::numeric_limits<double>::infinity();
static constexpr unsigned none = ~0u;
/// What a node of a tree costs beside its tables, in entries of those.
static constexpr double workOfNode = 300;

Search::Search(const Problem &problem, const MemoryUse &use, uint64_t seed)
    : problem(problem), use(use), random(seed), priced(problem.getCosts().size()),
      given(problem.getCosts().size()), memory(use.getPointCount()),
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
    double mostUsed = 0;
    for (const MemoryUse::Segment &segment : use.getSegments(node)) {
      const int64_t *begin = use.getUsages(segment);
      mostUsed = std::max(mostUsed, static_cast<double>(*std::max_element(
                                        begin, begin + problem.getNodes()[node].size)));
    }
    allUsage += mostUsed;
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
  for (int64_t usage : use.getAllUsages())
    usages.push_back(std::ceil(static_cast<double>(usage) / usageUnit));
  for (const Matrix &matrix : problem.getMatrices()) {
    auto &byRow = rows.emplace_back(), &byColumn = columns.emplace_back();
    for (int64_t cost : matrix.costs)
      byRow.push_back(scaled(cost));
    for (size_t column = 0; column < matrix.columns; ++column)
      for (size_t row = 0; row < matrix.rows; ++row)
        byColumn.push_back(byRow[row * matrix.columns + column]);
    // What is read behind the last row (Kernels.h).
    byRow.resize(byRow.size() + lanes);
    byColumn.resize(byColumn.size() + lanes);
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
  std::vector<double> area;
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    if (node.size > 1)
      movable.push_back(number);
    for (const MemoryUse::Segment &segment : use.getVarying(number)) {
      const double *begin = &usages[segment.offset];
      auto [lowest, highest] = std::minmax_element(begin, begin + node.size);
      spans.push_back({segment.range, begin, *lowest, *highest});
    }
    firstSpan.push_back(spans.size());
    area.assign(node.size, 0);
    for (const Span &span : getSpans(number))
      for (unsigned choice = 0; choice < node.size; ++choice)
        area[choice] += span.usages[choice] * (span.range.last - span.range.first);
    unsigned lowest = 0;
    for (unsigned choice = 1; choice < node.size; ++choice)
      if (std::tie(area[choice], costs[node.offset + choice]) <
          std::tie(area[lowest], costs[node.offset + lowest]))
        lowest = choice;
    present.push_back(lowest);
  }
  noise.resize(1 << 12);
  for (size_t i = 0; i < noise.size(); ++i)
    noise[i] =
        std::log(-std::log((static_cast<double>(i) + 0.5) / static_cast<double>(noise.size())));
  for (auto [node, choice] : llvm::enumerate(present))
    for (const MemoryUse::Segment &segment : use.getSegments(node))
      memory.add(segment.range, usages[segment.offset + choice]);
  isFitting = isWithinLimit();
  if (isFitting)
    origin = present;
  rebuild();
  keepBest();
}

void Search::setPrices(llvm::ArrayRef<double> prices) {
  std::vector<double> sums{0};
  for (double price : prices)
    sums.push_back(sums.back() + price);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    double *own = &priced[node.offset];
    std::fill_n(own, node.size, 0);
    for (const Span &span : getSpans(number)) {
      double price = sums[span.range.last] - sums[span.range.first];
      if (price != 0)
        for (unsigned choice = 0; choice < node.size; ++choice)
          own[choice] += price * span.usages[choice] * usageUnit / unit;
    }
  }
}

void Search::shift(unsigned node, unsigned from, unsigned to) {
  if (from == to)
    return;
  for (const Span &span : getSpans(node)) {
    double change = (to == least ? span.least : span.usages[to]) -
                    (from == least ? span.least : span.usages[from]);
    if (change != 0)
      memory.add(span.range, change);
  }
}

void Search::findRoom(unsigned node) {
  unsigned size = problem.getNodes()[node].size;
  isOut.assign(size, 0);
  if (!isBounded)
    return;
  for (const Span &span : getSpans(node)) {
    double room = limit - memory.getHighest(span.range) + span.least;
    // The least usage fits; where usages are rounded up it may seem not to.
    if (span.most > room)
      for (unsigned choice = 0; choice < size; ++choice)
        isOut[choice] |= span.usages[choice] > room && span.usages[choice] != span.least;
  }
}

void Search::setAssignment(llvm::ArrayRef<unsigned> assignment) {
  for (auto [node, choice] : llvm::enumerate(assignment)) {
    shift(node, present[node], choice);
    present[node] = choice;
  }
  isFitting = isWithinLimit();
  rebuild();
  keepBest();
}

bool Search::repair() {
  std::vector<double> used(use.getPointCount() + 1), area;
  for (auto [node, choice] : llvm::enumerate(present))
    for (const MemoryUse::Segment &segment : use.getSegments(node))
      for (unsigned point = segment.range.first; point < segment.range.last; ++point)
        used[point] += usages[segment.offset + choice];
  constexpr unsigned rounds = 20;
  for (unsigned round = 0; round < rounds && !isFitting; ++round) {
    bool anyChanged = false;
    for (unsigned node : movable) {
      unsigned size = problem.getNodes()[node].size, old = present[node];
      area.assign(size, 0);
      for (const Span &span : getSpans(node))
        for (unsigned point = span.range.first; point < span.range.last; ++point) {
          double room = limit - used[point] + span.usages[old];
          if (span.most > room)
            for (unsigned choice = 0; choice < size; ++choice)
              area[choice] += std::max(0.0, span.usages[choice] - room);
        }
      unsigned next = old;
      const double *own = &given[problem.getNodes()[node].offset];
      for (unsigned choice = 0; choice < size; ++choice)
        if (std::tie(area[choice], own[choice]) < std::tie(area[next], own[next]))
          next = choice;
      if (area[next] == area[old])
        continue;
      anyChanged = true;
      for (const Span &span : getSpans(node))
        for (unsigned point = span.range.first; point < span.range.last; ++point)
          used[point] += span.usages[next] - span.usages[old];
      shift(node, old, next);
      present[node] = next;
    }
    isFitting = isWithinLimit();
    if (!anyChanged)
      break;
  }
  rebuild();
  keepBest();
  return isFitting;
}

void Search::construct(llvm::ArrayRef<unsigned> order, llvm::ArrayRef<double> messages,
                       double price) {
  Assignment next(present.size(), least);
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  // Those to come are counted with the least that they can use.
  for (unsigned number = 0; number < nodes.size(); ++number)
    shift(number, present[number], least);
  std::vector<double> scores;
  for (unsigned number : order) {
    const Node &node = nodes[number];
    scores.assign(&costs[node.offset], &costs[node.offset] + node.size);
    addScaled(&priced[node.offset], node.size, price, scores.data());
    for (const Link &link : getLinks(number)) {
      if (next[link.other] != least) {
        add(link.toOwn + size_t(next[link.other]) * node.size, node.size, scores.data());
      } else {
        for (unsigned choice = 0; choice < node.size; ++choice)
          scores[choice] += messages[link.messages + choice] / unit;
      }
    }
    findRoom(number);
    unsigned best = none;
    for (unsigned choice = 0; choice < node.size; ++choice)
      if (!isOut[choice] && (best == none || scores[choice] < scores[best]))
        best = choice;
    if (best == none)
      best = present[number];
    shift(number, least, best);
    next[number] = best;
  }
  bool isNextFitting = isWithinLimit();
  if (isBounded && isFitting && !isNextFitting) {
    for (unsigned number = 0; number < nodes.size(); ++number)
      shift(number, next[number], present[number]);
    return;
  }
  isFitting = isNextFitting;
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
      add(row, node.size, own);
      // Each edge once.
      if (link.other < number)
        energy += row[present[number]];
    }
    energy += costs[node.offset + present[number]];
  }
}

void Search::keepBest() {
  if (!isFitting)
    return;
  unsigned forbiddenPairs = static_cast<unsigned>(energy / forbiddenCost);
  if (bestForbidden != none && energy >= bestEnergy)
    return;
  bestForbidden = forbiddenPairs;
  bestEnergy = energy;
  best = present;
}

void Search::setBounded(bool bounded) {
  isBounded = bounded;
  isFitting = isWithinLimit();
  keepBest();
}

double Search::getCost(double price) const {
  double sum = energy;
  for (auto [number, node] : llvm::enumerate(problem.getNodes()))
    sum += price * priced[node.offset + present[number]];
  return sum * unit;
}

std::vector<double> Search::getUsage() const {
  std::vector<double> used(use.getPointCount() + 1);
  for (auto [node, choice] : llvm::enumerate(present))
    for (const MemoryUse::Segment &segment : use.getSegments(node)) {
      used[segment.range.first] += usages[segment.offset + choice] * usageUnit;
      used[segment.range.last] -= usages[segment.offset + choice] * usageUnit;
    }
  for (size_t point = 1; point < used.size(); ++point)
    used[point] += used[point - 1];
  used.pop_back();
  return used;
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
    tree.push_back({node, parent, up, 0, 0});
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

/// What the node's choices cost beside all others as they are.
void Search::setBase(unsigned node, const Stage &stage, double *own) {
  const Node &entry = problem.getNodes()[node];
  std::copy_n(&given[entry.offset], entry.size, own);
  if (stage.price != 0)
    addScaled(&priced[entry.offset], entry.size, stage.price, own);
}

/// Adds noise and another price of memory, and leaves out what does not fit.
void Search::perturb(unsigned node, const Stage &stage, double extra, double *own) {
  const Node &entry = problem.getNodes()[node];
  if (stage.temperature > 0)
    for (unsigned choice = 0; choice < entry.size; ++choice)
      own[choice] += stage.temperature * gumbel();
  if (getSpans(node).empty())
    return;
  if (extra != 0)
    addScaled(&priced[entry.offset], entry.size, extra, own);
  findRoom(node);
  for (unsigned choice = 0; choice < entry.size; ++choice)
    if (isOut[choice])
      own[choice] = infinity;
}

/// The choice with the lowest score, of those that there is room for.
std::optional<unsigned> Search::pick(unsigned node, const double *scores) {
  findRoom(node);
  std::optional<unsigned> best;
  for (unsigned choice = 0; choice < problem.getNodes()[node].size; ++choice)
    if (!isOut[choice] && (!best || scores[choice] < scores[*best]))
      best = choice;
  return best;
}

/// Finds the tree's best choices, and sets memory to them; returns what they change in cost, and
/// memory at its price. Nothing, and memory as it was, if the last ones do not fit.
std::optional<double> Search::changeOf(const Stage &stage) {
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  size_t total = 0;
  for (TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    entry.offset = total;
    total += node.size;
    // Others leave it all the room that they can.
    shift(entry.node, present[entry.node], least);
  }
  if (tables.size() < 2 * total)
    tables.resize(2 * total);
  double *base = tables.data(), *table = tables.data() + total;
  double before = 0;
  treeWork += workOfNode * static_cast<double>(tree.size());
  for (const TreeNode &entry : tree) {
    setBase(entry.node, stage, base + entry.offset);
  }
  // Without the tree's own edges, which stand in `given` at both ends.
  for (size_t position = 1; position < tree.size(); ++position) {
    const TreeNode &entry = tree[position];
    const TreeNode &parent = tree[entry.parent];
    unsigned size = nodes[entry.node].size, parentSize = nodes[parent.node].size;
    const double *row = entry.up->toOwn + size_t(present[parent.node]) * size;
    before += row[present[entry.node]];
    subtract(row, size, base + entry.offset);
    subtract(entry.up->toOther + size_t(present[entry.node]) * parentSize, parentSize,
             base + parent.offset);
  }
  // Memory at a higher price leaves room for what is decided last, at a lower one it fills what is
  // left over.
  double extra = random() % 2 ? 0 : stage.price * (std::exp(4 * uniform() - 2) - 1);
  for (const TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    before += base[entry.offset + present[entry.node]];
    double *own = table + entry.offset;
    std::copy_n(base + entry.offset, node.size, own);
    perturb(entry.node, stage, extra, own);
  }
  for (size_t position = tree.size() - 1; position > 0; --position) {
    const TreeNode &entry = tree[position];
    const TreeNode &parent = tree[entry.parent];
    unsigned size = nodes[entry.node].size, parentSize = nodes[parent.node].size;
    treeWork += static_cast<double>(size) * parentSize;
    message.resize(padded(parentSize));
    findLeastSum(entry.up->toOther, parentSize, table + entry.offset, size, parentSize,
                 message.data());
    add(message.data(), parentSize, table + parent.offset);
  }
  double after = 0;
  for (TreeNode &entry : tree) {
    const Node &node = nodes[entry.node];
    const double *own = table + entry.offset;
    const double *row =
        entry.up ? entry.up->toOwn + size_t(tree[entry.parent].next) * node.size : nullptr;
    scores.assign(own, own + node.size);
    if (row)
      add(row, node.size, scores.data());
    std::optional<unsigned> choice = pick(entry.node, scores.data());
    if (!choice) {
      for (TreeNode &other : tree) {
        if (&other == &entry)
          break;
        shift(other.node, other.next, least);
      }
      for (const TreeNode &other : tree)
        shift(other.node, least, present[other.node]);
      return std::nullopt;
    }
    entry.next = *choice;
    shift(entry.node, least, *choice);
    after += base[entry.offset + *choice] + (row ? row[*choice] : 0);
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
      addDifference(link.toOther + size_t(entry.next) * other.size,
                    link.toOther + size_t(old) * other.size, other.size, &given[other.offset]);
    }
  }
}

void Search::moveTree(const Stage &stage) {
  // Small trees are as likely as large ones. The large take whole parts of the graph along: nodes
  // with many neighbours are held where they are by those that do not move with them.
  bool isLarge = uniform() < stage.large;
  double most = static_cast<double>(isLarge ? std::max<size_t>(movable.size(), 64) : 64);
  unsigned size = static_cast<unsigned>(std::exp(uniform() * std::log(most)));
  growTree(movable[random() % movable.size()], size);
  std::optional<double> change = changeOf(stage);
  if (change)
    accept(stage, *change);
}

void Search::accept(const Stage &stage, double change) {
  double allowed = stage.temperature > 0 ? -stage.temperature * std::log(1 - uniform()) : 0;
  if (change <= allowed) {
    apply();
    return;
  }
  for (const TreeNode &entry : tree)
    shift(entry.node, entry.next, present[entry.node]);
}

void Search::move(const Stage &stage) {
  if (stage.blocks > 0 && blockWork <= stage.blocks * treeWork)
    moveBlock(stage);
  else
    moveTree(stage);
}

void Search::run(llvm::function_ref<std::optional<Stage>()> next) {
  if (movable.empty() || !isFitting)
    return;
  while (std::optional<Stage> stage = next()) {
    stage->temperature /= unit;
    for (unsigned i = 0; i < movesAtOnce; ++i)
      move(*stage);
    if (energy < bestEnergy)
      keepBest();
  }
}

void Search::makeMoves(const Stage &stage, unsigned moves, bool untilFits) {
  if (movable.empty())
    return;
  for (unsigned i = 0; i < moves && !(untilFits && isWithinLimit()); ++i)
    move(stage);
  isFitting = isWithinLimit();
  keepBest();
}
