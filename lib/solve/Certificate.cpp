//===- Certificate.cpp - exact checks of bounds ----------------------------===//

#include "lib/solve/Certificate.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::solve;

namespace {

constexpr Cost infinite = ~(Cost(1) << 127);

/// The problem with the certificate's messages and prices worked in, and its removals checked.
class Reading {
public:
  Reading(const Problem &problem, const Certificate &certificate);

  std::optional<Bound> check();
  /// After a check.
  Proof exhaust(std::optional<Cost> upper, uint64_t steps, llvm::function_ref<bool()> isStopped);

private:
  bool checkRemovals();
  bool isImpossible(unsigned node, unsigned choice) const;
  bool reparametrise();
  Cost edgeCost(unsigned edge, unsigned first, unsigned second) const;

  void descend(Cost fixed);
  unsigned pickNode() const;
  void assign(unsigned node, unsigned choice);
  void undo(size_t trail);

  const Problem &problem;
  const Certificate &certificate;
  llvm::ArrayRef<Node> nodes;
  std::vector<std::vector<unsigned>> edgesOf;
  std::vector<char> isKept;
  std::vector<size_t> offsets;
  std::vector<Cost> potentials, edgeMinima;
  Cost bound = 0;
  bool isInfeasible = false;

  // Of the exhaustive search.
  std::optional<Cost> upper;
  uint64_t stepsLeft = 0;
  llvm::function_ref<bool()> isStopped;
  bool isCut = false;
  Assignment chosen;
  std::vector<char> isChosen;
  std::vector<std::pair<size_t, Cost>> trail;
  std::vector<int64_t> leastUsage;
  std::optional<Assignment> best;
};

} // namespace

Reading::Reading(const Problem &problem, const Certificate &certificate)
    : problem(problem), certificate(certificate), nodes(problem.getNodes()), edgesOf(nodes.size()),
      isKept(problem.getCosts().size(), 1) {
  size_t offset = 0;
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    edgesOf[edge.first].push_back(number);
    edgesOf[edge.second].push_back(number);
    offsets.push_back(offset);
    offset += nodes[edge.first].size + nodes[edge.second].size;
  }
}

bool Reading::isImpossible(unsigned number, unsigned choice) const {
  if (problem.getCosts(number)[choice] == forbidden)
    return true;
  for (unsigned edgeNumber : edgesOf[number]) {
    const Edge &edge = problem.getEdges()[edgeNumber];
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    bool isFirst = edge.first == number;
    const Node &other = nodes[isFirst ? edge.second : edge.first];
    bool hasPartner = false;
    for (size_t partner = 0; partner < other.size && !hasPartner; ++partner) {
      size_t index =
          isFirst ? size_t(choice) * matrix.columns + partner : partner * matrix.columns + choice;
      hasPartner = isKept[other.offset + partner] && matrix.costs[index] != forbidden;
    }
    if (!hasPartner)
      return true;
  }
  return false;
}

bool Reading::checkRemovals() {
  std::vector<unsigned> left;
  for (const Node &node : nodes)
    left.push_back(node.size);
  // Sums of least usages rise with each removal: older ones already rule most choices out, and are
  // made again where they do not.
  std::vector<std::pair<int64_t, Cost>> events;
  std::vector<int64_t> times;
  std::vector<Cost> least;
  auto sumUp = [&] {
    events.clear();
    for (auto [number, node] : llvm::enumerate(nodes)) {
      if (!node.isLive())
        continue;
      Cost lowest = infinite;
      for (unsigned choice = 0; choice < node.size; ++choice)
        if (isKept[node.offset + choice])
          lowest = std::min<Cost>(lowest, problem.getUsages(number)[choice]);
      if (lowest == infinite)
        continue;
      events.push_back({node.start, lowest});
      events.push_back({node.end, -lowest});
    }
    llvm::sort(events);
    times.clear();
    least.clear();
    Cost present = 0;
    for (auto [time, change] : events) {
      present += change;
      if (times.empty() || times.back() != time) {
        times.push_back(time);
        least.push_back(present);
      } else {
        least.back() = present;
      }
    }
  };
  sumUp();
  size_t summedAt = 0;
  auto exceeds = [&](unsigned number, unsigned choice) {
    const Node &node = nodes[number];
    if (!node.isLive())
      return false;
    Cost lowest = infinite;
    for (unsigned candidate = 0; candidate < node.size; ++candidate)
      if (isKept[node.offset + candidate])
        lowest = std::min<Cost>(lowest, problem.getUsages(number)[candidate]);
    size_t first = llvm::lower_bound(times, node.start) - times.begin();
    size_t last = llvm::lower_bound(times, node.end) - times.begin();
    // An event at the node's start is there, its own.
    Cost peak = *std::max_element(least.begin() + first, least.begin() + last);
    return peak - lowest + problem.getUsages(number)[choice] > problem.limit;
  };
  for (auto [position, entry] : llvm::enumerate(certificate.removed)) {
    auto [number, choice] = entry;
    if (number >= nodes.size() || choice >= nodes[number].size ||
        !isKept[nodes[number].offset + choice])
      return false;
    bool isOut = isImpossible(number, choice) || exceeds(number, choice);
    if (!isOut && summedAt != position) {
      sumUp();
      summedAt = position;
      isOut = exceeds(number, choice);
    }
    if (!isOut)
      return false;
    isKept[nodes[number].offset + choice] = 0;
    if (--left[number] == 0) {
      isInfeasible = true;
      return true;
    }
  }
  return true;
}

Cost Reading::edgeCost(unsigned number, unsigned first, unsigned second) const {
  const Edge &edge = problem.getEdges()[number];
  const Matrix &matrix = problem.getMatrices()[edge.matrix];
  int64_t cost = matrix.costs[size_t(first) * matrix.columns + second];
  if (cost == forbidden)
    return infinite;
  const Cost *messages = &certificate.messages[offsets[number]];
  return (Cost(cost) << Certificate::shift) - messages[first] -
         messages[nodes[edge.first].size + second];
}

bool Reading::reparametrise() {
  size_t expected = 0;
  for (const Edge &edge : problem.getEdges())
    expected += nodes[edge.first].size + nodes[edge.second].size;
  if (certificate.messages.size() != expected)
    return false;
  // Sums of this many such numbers do not overflow.
  constexpr Cost most = Cost(1) << 108;
  for (Cost message : certificate.messages)
    if (message > most || message < -most)
      return false;
  std::vector<int64_t> times;
  std::vector<Cost> sums{0};
  for (auto [time, price] : certificate.prices) {
    if (price < 0 || price > most || (!times.empty() && time <= times.back()))
      return false;
    times.push_back(time);
    sums.push_back(sums.back() + price);
    if (sums.back() > most)
      return false;
  }
  Cost paid;
  if (__builtin_mul_overflow(sums.back(), Cost(problem.limit), &paid))
    return false;
  bound = -paid;
  potentials.assign(problem.getCosts().size(), infinite);
  for (auto [number, node] : llvm::enumerate(nodes)) {
    Cost price = 0;
    if (node.isLive())
      price = sums[llvm::lower_bound(times, node.end) - times.begin()] -
              sums[llvm::lower_bound(times, node.start) - times.begin()];
    for (size_t index = node.offset; index < node.offset + node.size; ++index) {
      if (!isKept[index])
        continue;
      Cost used;
      if (__builtin_mul_overflow(price, Cost(problem.getUsages()[index]), &used) ||
          used > (Cost(1) << 110))
        return false;
      potentials[index] = (Cost(problem.getCosts()[index]) << Certificate::shift) + used;
    }
  }
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    const Node &first = nodes[edge.first], &second = nodes[edge.second];
    const Cost *messages = &certificate.messages[offsets[number]];
    for (unsigned choice = 0; choice < first.size; ++choice)
      if (isKept[first.offset + choice])
        potentials[first.offset + choice] += messages[choice];
    for (unsigned choice = 0; choice < second.size; ++choice)
      if (isKept[second.offset + choice])
        potentials[second.offset + choice] += messages[first.size + choice];
  }
  return true;
}

std::optional<Bound> Reading::check() {
  if (!checkRemovals())
    return std::nullopt;
  if (isInfeasible)
    return Bound{true, 0};
  if (!reparametrise())
    return std::nullopt;
  auto add = [&](Cost part) { return !__builtin_add_overflow(bound, part, &bound); };
  for (const Node &node : nodes)
    if (!add(*std::min_element(&potentials[node.offset], &potentials[node.offset] + node.size)))
      return std::nullopt;
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    Cost least = infinite;
    for (unsigned first = 0; first < nodes[edge.first].size; ++first)
      if (isKept[nodes[edge.first].offset + first])
        for (unsigned second = 0; second < nodes[edge.second].size; ++second)
          if (isKept[nodes[edge.second].offset + second])
            least = std::min(least, edgeCost(number, first, second));
    // No pair of what is left may stand together.
    if (least == infinite) {
      isInfeasible = true;
      return Bound{true, 0};
    }
    edgeMinima.push_back(least);
    if (!add(least))
      return std::nullopt;
  }
  // Costs are integers: the bound is rounded up.
  Cost unit = Cost(1) << Certificate::shift;
  Cost whole = bound >> Certificate::shift;
  return Bound{false, whole * unit == bound ? whole : whole + 1};
}

/// The open node with the fewest choices that can still be better; of these, the first.
unsigned Reading::pickNode() const {
  unsigned best = nodes.size(), bestCount = ~0u;
  for (unsigned number = 0; number < nodes.size(); ++number) {
    if (isChosen[number])
      continue;
    unsigned count = 0;
    for (size_t index = nodes[number].offset; index < nodes[number].offset + nodes[number].size;
         ++index)
      count += potentials[index] != infinite;
    if (count < bestCount) {
      best = number;
      bestCount = count;
    }
  }
  return best;
}

void Reading::undo(size_t size) {
  while (trail.size() > size) {
    potentials[trail.back().first] = trail.back().second;
    trail.pop_back();
  }
}

/// Works the choice into the neighbours' potentials.
void Reading::assign(unsigned node, unsigned choice) {
  for (unsigned number : edgesOf[node]) {
    const Edge &edge = problem.getEdges()[number];
    bool isFirst = edge.first == node;
    unsigned other = isFirst ? edge.second : edge.first;
    if (isChosen[other])
      continue;
    const Node &entry = nodes[other];
    for (unsigned partner = 0; partner < entry.size; ++partner) {
      Cost &potential = potentials[entry.offset + partner];
      if (potential == infinite)
        continue;
      Cost cost = isFirst ? edgeCost(number, choice, partner) : edgeCost(number, partner, choice);
      trail.push_back({entry.offset + partner, potential});
      potential = cost == infinite ? infinite : potential + cost - edgeMinima[number];
    }
  }
}

/// `fixed` is the part of the bound that chosen nodes and their edges make up, and the prices.
void Reading::descend(Cost fixed) {
  if (isCut || stepsLeft == 0 || (stepsLeft % 256 == 0 && isStopped())) {
    isCut = true;
    return;
  }
  --stepsLeft;
  Cost sum = fixed;
  for (auto [number, node] : llvm::enumerate(nodes)) {
    if (isChosen[number])
      continue;
    Cost least = *std::min_element(&potentials[node.offset], &potentials[node.offset] + node.size);
    if (least == infinite)
      return;
    sum += least;
  }
  if (upper && sum > ((*upper - 1) << Certificate::shift))
    return;
  unsigned number = pickNode();
  if (number == nodes.size()) {
    if (std::optional<Cost> cost = problem.getCost(chosen); cost && (!upper || *cost < *upper)) {
      upper = *cost;
      best = chosen;
    }
    return;
  }
  const Node &node = nodes[number];
  std::vector<unsigned> order;
  for (unsigned choice = 0; choice < node.size; ++choice)
    if (potentials[node.offset + choice] != infinite)
      order.push_back(choice);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::tie(potentials[node.offset + a], a) < std::tie(potentials[node.offset + b], b);
  });
  isChosen[number] = 1;
  for (unsigned choice : order) {
    // The others with the least that they can use.
    chosen[number] = choice;
    std::vector<std::pair<int64_t, Cost>> events;
    for (auto [other, entry] : llvm::enumerate(nodes))
      if (entry.isLive()) {
        Cost usage = isChosen[other] ? problem.getUsages(other)[chosen[other]] : leastUsage[other];
        events.push_back({entry.start, usage});
        events.push_back({entry.end, -usage});
      }
    llvm::sort(events);
    Cost present = 0, peak = 0;
    for (auto [time, change] : events)
      peak = std::max(peak, present += change);
    if (peak > problem.limit)
      continue;
    size_t mark = trail.size();
    Cost own = potentials[node.offset + choice];
    assign(number, choice);
    descend(fixed + own);
    undo(mark);
  }
  isChosen[number] = 0;
}

Proof Reading::exhaust(std::optional<Cost> below, uint64_t steps,
                       llvm::function_ref<bool()> stopped) {
  isStopped = stopped;
  if (isInfeasible)
    return {true, std::nullopt};
  upper = below;
  stepsLeft = steps;
  chosen.assign(nodes.size(), 0);
  isChosen.assign(nodes.size(), 0);
  for (auto [number, node] : llvm::enumerate(nodes)) {
    int64_t least = INT64_MAX;
    for (unsigned choice = 0; choice < node.size; ++choice)
      if (isKept[node.offset + choice])
        least = std::min(least, problem.getUsages(number)[choice]);
    leastUsage.push_back(least);
  }
  Cost fixed = bound;
  for (const Node &node : nodes)
    fixed -= *std::min_element(&potentials[node.offset], &potentials[node.offset] + node.size);
  descend(fixed);
  return {!isCut, best};
}

std::optional<Bound> cleave::solve::check(const Problem &problem, const Certificate &certificate) {
  return Reading(problem, certificate).check();
}

Proof cleave::solve::exhaust(const Problem &problem, const Certificate &certificate,
                             std::optional<Cost> upper, uint64_t steps,
                             llvm::function_ref<bool()> isStopped) {
  Reading reading(problem, certificate);
  if (!reading.check())
    return {};
  return reading.exhaust(upper, steps, isStopped);
}
