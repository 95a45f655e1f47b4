//===- Cases.cpp ------------------------------------------------------------===//

#include "lib/solve/Cases.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::solve;

/// Below all bounds, and far from overflow.
static constexpr Cost lowest = -(Cost(1) << 100);
/// Of pairs of groups' choices, that are kept rather than added up each time.
static constexpr size_t mostSums = size_t(1) << 22;

Cases::Cases(const Problem &problem, const Certificate &certificate)
    : CertificateReader(problem, certificate) {
  isConfirmed = checkRemovals() && !isInfeasible && contract() && checkGroupRemovals();
  if (!isConfirmed)
    return;
  size_t pairs = 0;
  for (const Link &link : links)
    pairs += size_t(nodes[link.first].size) * nodes[link.second].size;
  for (Link &link : links) {
    if (pairs > mostSums)
      break;
    std::vector<Cost> sums;
    for (unsigned first = 0; first < nodes[link.first].size; ++first)
      for (unsigned second = 0; second < nodes[link.second].size; ++second)
        sums.push_back(getPlainCost(link, first, second));
    link.sums = std::move(sums);
  }
  for (auto [number, link] : llvm::enumerate(links)) {
    bool isConstraint = false;
    for (unsigned first = 0; first < nodes[link.first].size && !isConstraint; ++first)
      for (unsigned second = 0; second < nodes[link.second].size && !isConstraint; ++second)
        isConstraint = isGroupKept(link.first, first) && isGroupKept(link.second, second) &&
                       getPlainCost(link, first, second) == infinite;
    if (isConstraint)
      constraints.push_back(number);
  }
  Case &all = cases.emplace_back();
  all.bound = lowest;
  all.isClosed = isInfeasible;
  store(all);
}

void Cases::load(const Case &entry) {
  std::copy(entry.left.begin(), entry.left.end(), isKept.begin());
  isInfeasible = false;
}

void Cases::store(Case &entry) {
  entry.left.assign(isKept.begin(), isKept.end());
}

/// Leaves out choices of the loaded case without a partner on some link.
void Cases::propagate(Case &entry) {
  bool anyChanged = true;
  while (anyChanged) {
    anyChanged = false;
    for (unsigned number : constraints) {
      const Link &link = links[number];
      for (bool isFirst : {true, false}) {
        unsigned leader = isFirst ? link.first : link.second;
        unsigned other = isFirst ? link.second : link.first;
        for (unsigned choice = 0; choice < nodes[leader].size; ++choice) {
          if (!isGroupKept(leader, choice))
            continue;
          bool hasPartner = false;
          for (unsigned partner = 0; partner < nodes[other].size && !hasPartner; ++partner)
            hasPartner =
                isGroupKept(other, partner) && getPlainCost(link, isFirst ? choice : partner,
                                                            isFirst ? partner : choice) != infinite;
          if (!hasPartner) {
            isKept[nodes[leader].offset + choice] = 0;
            anyChanged = true;
          }
        }
      }
    }
  }
  for (unsigned leader : leaders) {
    const char *kept = &isKept[nodes[leader].offset];
    entry.isClosed |= std::none_of(kept, kept + nodes[leader].size, [](char is) { return is; });
  }
}

Cost Cases::roundUp(Cost sum) {
  Cost unit = Cost(1) << Certificate::shift, whole = sum >> Certificate::shift;
  return whole * unit == sum ? whole : whole + 1;
}

bool Cases::raise(unsigned number, const Certificate &dual, std::optional<Cost> target) {
  Case &entry = cases[number];
  if (entry.isClosed)
    return true;
  load(entry);
  certificate = &dual;
  linkMinima.clear();
  if (!reparametrise() || !sumUp())
    return false;
  if (isInfeasible) {
    entry.isClosed = true;
    return true;
  }
  entry.bound = std::max(entry.bound, roundUp(bound));
  if (!target)
    return true;
  bool isTargetUsed = entry.bound >= *target;
  if (isTargetUsed)
    entry.isClosed = true;
  bool anyLeftOut = false;
  for (unsigned leader : leaders) {
    if (entry.isClosed)
      break;
    Cost others = bound - getLeast(leader);
    for (unsigned choice = 0; choice < nodes[leader].size; ++choice) {
      Cost sum;
      if (!isGroupKept(leader, choice) ||
          __builtin_add_overflow(others, potentials[nodes[leader].offset + choice], &sum) ||
          roundUp(sum) < *target)
        continue;
      isKept[nodes[leader].offset + choice] = 0;
      anyLeftOut = true;
    }
  }
  if (anyLeftOut) {
    propagate(entry);
    store(entry);
  }
  if (anyLeftOut || isTargetUsed)
    leastTarget = leastTarget ? std::min(*leastTarget, *target) : *target;
  return true;
}

unsigned Cases::split(unsigned number, unsigned leader, llvm::ArrayRef<unsigned> choices) {
  unsigned second = cases.size();
  cases.push_back(cases[number]);
  for (unsigned part : {number, second}) {
    Case &entry = cases[part];
    if (entry.isClosed)
      continue;
    load(entry);
    for (unsigned choice = 0; choice < nodes[leader].size; ++choice)
      if (llvm::is_contained(choices, choice) != (part == number))
        isKept[nodes[leader].offset + choice] = 0;
    propagate(entry);
    store(entry);
  }
  return second;
}

std::optional<Cost> Cases::getBound() const {
  std::optional<Cost> least = leastTarget;
  for (const Case &entry : cases)
    if (!entry.isClosed)
      least = least ? std::min(*least, entry.bound) : entry.bound;
  return least;
}
