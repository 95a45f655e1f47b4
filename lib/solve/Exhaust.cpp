//===- Exhaust.cpp - all choices that a certificate leaves open ------------===//

#include "lib/solve/CertificateReader.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::solve;

namespace {

class Exhaustion : public CertificateReader {
public:
  using CertificateReader::CertificateReader;

  /// After a check.
  Proof run(std::optional<Cost> upper, uint64_t steps, llvm::function_ref<bool()> isStopped);

private:
  void descend(Cost fixed);
  unsigned pickGroup() const;
  void assign(unsigned leader, unsigned choice);
  void undo(size_t trail);
  bool fits() const;

  std::optional<Cost> upper;
  uint64_t stepsLeft = 0;
  llvm::function_ref<bool()> isStopped;
  bool isCut = false;
  /// By leading node.
  Assignment chosen;
  std::vector<char> isChosen;
  std::vector<std::pair<size_t, Cost>> trail;
  /// By node.
  std::vector<int64_t> leastUsage;
  std::optional<Assignment> best;
};

} // namespace

/// The open group with the fewest choices that can still be better; of these, the first.
unsigned Exhaustion::pickGroup() const {
  unsigned best = nodes.size(), bestCount = ~0u;
  for (unsigned leader : leaders) {
    if (isChosen[leader])
      continue;
    unsigned count = 0;
    for (size_t index = nodes[leader].offset; index < nodes[leader].offset + nodes[leader].size;
         ++index)
      count += potentials[index] != infinite;
    if (count < bestCount) {
      best = leader;
      bestCount = count;
    }
  }
  return best;
}

void Exhaustion::undo(size_t size) {
  while (trail.size() > size) {
    potentials[trail.back().first] = trail.back().second;
    trail.pop_back();
  }
}

/// Works the choice into the neighbours' potentials.
void Exhaustion::assign(unsigned leader, unsigned choice) {
  for (unsigned number : linksOf[leader]) {
    const Link &link = links[number];
    bool isFirst = link.first == leader;
    unsigned other = isFirst ? link.second : link.first;
    if (isChosen[other])
      continue;
    const Node &entry = nodes[other];
    for (unsigned partner = 0; partner < entry.size; ++partner) {
      Cost &potential = potentials[entry.offset + partner];
      if (potential == infinite)
        continue;
      Cost cost = isFirst ? getCost(link, choice, partner) : getCost(link, partner, choice);
      trail.push_back({entry.offset + partner, potential});
      potential = cost == infinite ? infinite : potential + cost - linkMinima[number];
    }
  }
}

/// Where the nodes of open groups use the least that they can.
bool Exhaustion::fits() const {
  std::vector<std::pair<int64_t, Cost>> events;
  for (auto [number, node] : llvm::enumerate(nodes)) {
    if (!node.isLive())
      continue;
    unsigned leader = leaderOf[number];
    Cost usage = isChosen[leader] ? problem.getUsages(number)[choiceOf[number][chosen[leader]]]
                                  : leastUsage[number];
    events.push_back({node.start, usage});
    events.push_back({node.end, -usage});
  }
  llvm::sort(events);
  Cost present = 0;
  return llvm::all_of(events,
                      [&](auto &event) { return (present += event.second) <= problem.limit; });
}

/// `fixed` is the part of the bound that chosen groups and their edges make up, and the prices.
void Exhaustion::descend(Cost fixed) {
  if (isCut || stepsLeft == 0 || (stepsLeft % 256 == 0 && isStopped())) {
    isCut = true;
    return;
  }
  --stepsLeft;
  Cost sum = fixed;
  for (unsigned leader : leaders) {
    if (isChosen[leader])
      continue;
    Cost least = getLeast(leader);
    if (least == infinite)
      return;
    sum += least;
  }
  if (upper && sum > ((*upper - 1) << Certificate::shift))
    return;
  unsigned leader = pickGroup();
  if (leader == nodes.size()) {
    Assignment assignment;
    for (unsigned node = 0; node < nodes.size(); ++node)
      assignment.push_back(choiceOf[node][chosen[leaderOf[node]]]);
    if (std::optional<Cost> cost = problem.getCost(assignment);
        cost && (!upper || *cost < *upper)) {
      upper = *cost;
      best = std::move(assignment);
    }
    return;
  }
  const Node &node = nodes[leader];
  std::vector<unsigned> order;
  for (unsigned choice = 0; choice < node.size; ++choice)
    if (potentials[node.offset + choice] != infinite)
      order.push_back(choice);
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::tie(potentials[node.offset + a], a) < std::tie(potentials[node.offset + b], b);
  });
  isChosen[leader] = 1;
  for (unsigned choice : order) {
    chosen[leader] = choice;
    if (!fits())
      continue;
    size_t mark = trail.size();
    Cost own = potentials[node.offset + choice];
    assign(leader, choice);
    descend(fixed + own);
    undo(mark);
  }
  isChosen[leader] = 0;
}

Proof Exhaustion::run(std::optional<Cost> below, uint64_t steps,
                      llvm::function_ref<bool()> stopped) {
  isStopped = stopped;
  if (isInfeasible)
    return {true, std::nullopt};
  upper = below;
  stepsLeft = steps;
  chosen.assign(nodes.size(), 0);
  isChosen.assign(nodes.size(), 0);
  for (unsigned number = 0; number < nodes.size(); ++number) {
    unsigned leader = leaderOf[number];
    int64_t least = INT64_MAX;
    for (auto [choice, own] : llvm::enumerate(choiceOf[number]))
      if (isGroupKept(leader, choice))
        least = std::min(least, problem.getUsages(number)[own]);
    leastUsage.push_back(least);
  }
  Cost fixed = bound;
  for (unsigned leader : leaders)
    fixed -= getLeast(leader);
  descend(fixed);
  return {!isCut, best};
}

Proof cleave::solve::exhaust(const Problem &problem, const Certificate &certificate,
                             std::optional<Cost> upper, uint64_t steps,
                             llvm::function_ref<bool()> isStopped) {
  Exhaustion exhaustion(problem, certificate);
  if (!exhaustion.check())
    return {};
  return exhaustion.run(upper, steps, isStopped);
}
