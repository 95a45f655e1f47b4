//===- Dual.cpp - sweeps of messages and steps of prices ------------------===//

#include "lib/solve/Dual.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::solve;

static constexpr double infinity = std::numeric_limits<double>::infinity();
/// How far above the bound prices aim at first, as a part of it, where they are good already.
static constexpr double startingReach = 0.05;

Dual::Dual(const Problem &problem, const MemoryUse &memory)
    : problem(problem), memory(memory), pairs(problem), potentials(problem.getCosts().size()),
      prices(memory.getPointCount()), before(problem.getNodes().size()),
      after(problem.getNodes().size()), decoded(problem.getNodes().size()),
      direction(memory.getPointCount()) {
  messages.assign(pairs.messageCount, 0);
  orderNodes();
  setPotentials();
}

void Dual::orderNodes() {
  size_t count = problem.getNodes().size();
  std::vector<std::vector<Link>> links(count);
  std::vector<unsigned> degree(count);
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    links[edge.first].push_back({static_cast<unsigned>(number), edge.second, true});
    links[edge.second].push_back({static_cast<unsigned>(number), edge.first, false});
    ++degree[edge.first];
    ++degree[edge.second];
  }
  std::vector<unsigned> leaves;
  for (unsigned node = 0; node < count; ++node)
    if (degree[node] == 1)
      leaves.push_back(node);
  std::vector<char> isInTree(count);
  while (!leaves.empty()) {
    unsigned node = leaves.back();
    leaves.pop_back();
    if (degree[node] != 1)
      continue;
    auto up = llvm::find_if(links[node], [&](Link &link) { return !isInTree[link.other]; });
    isInTree[node] = 1;
    trees.push_back({node, *up});
    if (--degree[up->other] == 1)
      leaves.push_back(up->other);
  }
  for (unsigned node = 0; node < count; ++node) {
    if (isInTree[node])
      continue;
    core.push_back(node);
    for (const Link &link : links[node])
      if (!isInTree[link.other])
        (link.other < node ? before : after)[node].push_back(link);
  }
}

std::vector<unsigned> Dual::getOrder() const {
  std::vector<unsigned> order = core;
  for (auto &[node, up] : llvm::reverse(trees))
    order.push_back(node);
  return order;
}

void Dual::setPotentials() {
  std::vector<double> sums{0};
  for (double price : prices)
    sums.push_back(sums.back() + price);
  for (auto [number, node] : llvm::enumerate(problem.getNodes())) {
    for (size_t choice = node.offset; choice < node.offset + node.size; ++choice)
      potentials[choice] = static_cast<double>(problem.getCosts()[choice]);
    memory.addPriced(memory.getSegments(number), sums, {&potentials[node.offset], node.size});
  }
  for (auto [edge, offsets] : llvm::zip_equal(problem.getEdges(), pairs.messageOffsets)) {
    const Node &first = problem.getNodes()[edge.first], &second = problem.getNodes()[edge.second];
    for (unsigned choice = 0; choice < first.size; ++choice)
      potentials[first.offset + choice] += messages[offsets.first + choice];
    for (unsigned choice = 0; choice < second.size; ++choice)
      potentials[second.offset + choice] += messages[offsets.second + choice];
  }
}

/// With the other end's choices as rows.
const double *Dual::getRows(const Link &link) const {
  const PairCosts::Transposed &matrix = pairs.matrices[problem.getEdges()[link.edge].matrix];
  return link.isFirst ? matrix.columns.data() : matrix.rows.data();
}

/// What its choices cost beside the one that the other end has.
const double *Dual::getRow(const Link &link, unsigned size) const {
  return getRows(link) + decoded[link.other] * padded(size);
}

double *Dual::toOwn(const Link &link) {
  auto [first, second] = pairs.messageOffsets[link.edge];
  return &messages[link.isFirst ? first : second];
}

double *Dual::toOther(const Link &link) {
  auto [first, second] = pairs.messageOffsets[link.edge];
  return &messages[link.isFirst ? second : first];
}

/// Moves all that the edge has to say into the node.
void Dual::collect(unsigned node, const Link &link) {
  const Node &own = problem.getNodes()[node], &other = problem.getNodes()[link.other];
  scratch.resize(padded(own.size));
  findLeast(getRows(link), padded(own.size), toOther(link), other.size, own.size, scratch.data());
  replaceMessage(scratch.data(), own.size, toOwn(link), &potentials[own.offset]);
}

/// Gives each of the edges this share of the node's potential.
void Dual::distribute(unsigned node, llvm::ArrayRef<Link> links, double weight) {
  if (links.empty())
    return;
  const Node &own = problem.getNodes()[node];
  double *potential = &potentials[own.offset];
  for (const Link &link : links)
    takeShare(potential, own.size, weight, toOwn(link));
  scale(potential, own.size, 1 - weight * static_cast<double>(links.size()));
}

void Dual::sweepTrees() {
  for (auto &[node, up] : trees) {
    distribute(node, up, 1);
    Link down{up.edge, node, !up.isFirst};
    collect(up.other, down);
  }
}

void Dual::sweepForward() {
  for (unsigned node : core) {
    for (const Link &link : before[node])
      collect(node, link);
    const Node &own = problem.getNodes()[node];
    // The choice given those already made.
    scratch.assign(&potentials[own.offset], &potentials[own.offset] + own.size);
    for (const Link &link : before[node])
      addReduced(getRow(link, own.size), toOwn(link), own.size, scratch.data());
    decoded[node] = firstLeast(scratch.data(), own.size);
    distribute(
        node, after[node],
        1.0 / static_cast<double>(std::max({before[node].size(), after[node].size(), size_t(1)})));
  }
}

void Dual::sweepBackward() {
  for (unsigned node : llvm::reverse(core)) {
    for (const Link &link : after[node])
      collect(node, link);
    distribute(
        node, before[node],
        1.0 / static_cast<double>(std::max({before[node].size(), after[node].size(), size_t(1)})));
  }
}

void Dual::decodeTrees() {
  for (auto &[node, up] : llvm::reverse(trees)) {
    const Node &own = problem.getNodes()[node];
    const double *row = getRow(up, own.size);
    const double *message = toOwn(up);
    double least = infinity;
    for (unsigned choice = 0; choice < own.size; ++choice) {
      double value = row[choice] - message[choice];
      if (value < least) {
        least = value;
        decoded[node] = choice;
      }
    }
  }
}

double Dual::computeBound() const {
  double sum = 0;
  for (const Node &node : problem.getNodes())
    sum += leastOf(&potentials[node.offset], node.size);
  for (double price : prices)
    sum -= price * static_cast<double>(problem.limit);
  return sum;
}

void Dual::restore() {
  messages = best.messages;
  prices = best.prices;
  setPotentials();
}

void Dual::start(std::vector<double> someMessages, std::vector<double> somePrices) {
  messages = std::move(someMessages);
  prices = std::move(somePrices);
  setPotentials();
  reach = startingReach;
}

/// Polyak's step towards a target above the best bound; the target comes closer while it is missed.
void Dual::stepPrices(double upper) {
  std::vector<double> excess(memory.getPointCount() + 1);
  for (auto [number, choice] : llvm::enumerate(decoded))
    for (const MemoryUse::Segment &segment : memory.getSegments(number)) {
      double usage = static_cast<double>(memory.getUsages(segment)[choice]);
      excess[segment.range.first] += usage;
      excess[segment.range.last] -= usage;
    }
  double present = 0, norm = 0;
  double limit = static_cast<double>(problem.limit);
  for (size_t point = 0; point < prices.size(); ++point) {
    present += excess[point];
    direction[point] = 0.7 * direction[point] + 0.3 * (present - limit) / std::max(limit, 1.0);
    if (prices[point] > 0 || direction[point] > 0)
      norm += direction[point] * direction[point];
  }
  if (norm == 0)
    return;
  double target = std::max(std::abs(best.bound) * reach, 1.0);
  if (std::isfinite(upper))
    target = std::min(target, std::max(upper - best.bound, 1.0));
  double step = target / norm / std::max(limit, 1.0);
  std::vector<double> changes{0};
  for (size_t point = 0; point < prices.size(); ++point) {
    double next = std::max(0.0, prices[point] + step * direction[point]);
    changes.push_back(changes.back() + next - prices[point]);
    prices[point] = next;
  }
  for (auto [number, node] : llvm::enumerate(problem.getNodes()))
    memory.addPriced(memory.getSegments(number), changes, {&potentials[node.offset], node.size});
}

void Dual::sweep() {
  sweepTrees();
  sweepForward();
  decodeTrees();
  sweepBackward();
  bound = computeBound();
}

void Dual::keepBest() {
  if (bound <= best.bound)
    return;
  best.messages = messages;
  best.prices = prices;
  best.bound = bound;
}

double Dual::getDecodedCost() const {
  std::optional<Cost> cost = problem.getCost(decoded);
  return cost ? static_cast<double>(*cost) : infinity;
}

double Dual::settle(double part, unsigned most) {
  for (unsigned i = 0; i < most; ++i) {
    double before = bound;
    sweep();
    if (i > 0 && bound - before <= part * std::abs(bound))
      break;
  }
  keepBest();
  return bound;
}

void Dual::setPrices(llvm::ArrayRef<double> next) {
  prices = next;
  setPotentials();
}

void Dual::iterate(double upper) {
  if (iterations > 0)
    stepPrices(upper);
  sweep();
  keepBest();
  ++iterations;
  // Smaller steps have smaller successes.
  if (best.bound > reference + 0.01 * reach * std::abs(reference) || iterations == 1) {
    reference = best.bound;
    sinceProgress = 0;
  } else if (++sinceProgress >= 25) {
    reach *= 0.6;
    sinceProgress = 0;
    restore();
  }
}
