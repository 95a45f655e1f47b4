//===- Certificate.cpp - exact checks of bounds ----------------------------===//

#include "lib/solve/CertificateReader.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace cleave::solve;

/// Sums of this many such numbers do not overflow.
static constexpr Cost most = Cost(1) << 108;

CertificateReader::CertificateReader(const Problem &problem, const Certificate &certificate)
    : problem(problem), certificate(&certificate), nodes(problem.getNodes()), edgesOf(nodes.size()),
      isKept(problem.getCosts().size(), 1), leaderOf(nodes.size()), choiceOf(nodes.size()),
      linksOf(nodes.size()) {
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    edgesOf[edge.first].push_back(number);
    edgesOf[edge.second].push_back(number);
  }
  std::iota(leaderOf.begin(), leaderOf.end(), 0);
  for (auto [own, node] : llvm::zip_equal(choiceOf, nodes)) {
    own.resize(node.size);
    std::iota(own.begin(), own.end(), 0);
  }
}

bool CertificateReader::isImpossible(unsigned number, unsigned choice) const {
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

bool CertificateReader::checkRemovals() {
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
  for (auto [position, entry] : llvm::enumerate(certificate->removed)) {
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

/// Follows the certificate's steps; whether each of them is allowed.
bool CertificateReader::contract() {
  constexpr unsigned none = ~0u;
  members.resize(nodes.size());
  innerEdges.resize(nodes.size());
  groupCosts.resize(nodes.size());
  for (unsigned node = 0; node < nodes.size(); ++node)
    members[node] = {node};
  for (const Contraction::Step &step : certificate->contracted) {
    if (step.edge >= problem.getEdges().size())
      return false;
    const Edge &edge = problem.getEdges()[step.edge];
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    unsigned follower = step.ofFirst ? edge.first : edge.second;
    unsigned other = step.ofFirst ? edge.second : edge.first;
    unsigned from = leaderOf[follower], to = leaderOf[other];
    if (from == to)
      return false;
    std::vector<unsigned> map(nodes[to].size, none);
    for (unsigned choice = 0; choice < nodes[to].size; ++choice) {
      if (!isGroupKept(to, choice))
        continue;
      for (unsigned partner = 0; partner < nodes[from].size; ++partner) {
        if (!isGroupKept(from, partner))
          continue;
        size_t own = choiceOf[follower][partner], others = choiceOf[other][choice];
        size_t index = step.ofFirst ? own * matrix.columns + others : others * matrix.columns + own;
        if (matrix.costs[index] == forbidden)
          continue;
        if (map[choice] != none)
          return false;
        map[choice] = partner;
      }
      // Nothing stands beside it.
      if (map[choice] == none)
        isKept[nodes[to].offset + choice] = 0;
    }
    for (unsigned member : members[from]) {
      std::vector<unsigned> next;
      for (unsigned partner : map)
        next.push_back(partner == none ? 0 : choiceOf[member][partner]);
      choiceOf[member] = std::move(next);
      leaderOf[member] = to;
    }
    members[to].insert(members[to].end(), members[from].begin(), members[from].end());
    members[from].clear();
  }
  for (unsigned node = 0; node < nodes.size(); ++node)
    if (leaderOf[node] == node)
      leaders.push_back(node);
  std::map<std::pair<unsigned, unsigned>, std::vector<unsigned>> pairs;
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    unsigned first = leaderOf[edge.first], second = leaderOf[edge.second];
    if (first != second) {
      pairs[std::minmax(first, second)].push_back(number);
      continue;
    }
    innerEdges[first].push_back(number);
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    for (unsigned choice = 0; choice < nodes[first].size; ++choice)
      if (matrix.costs[size_t(choiceOf[edge.first][choice]) * matrix.columns +
                       choiceOf[edge.second][choice]] == forbidden)
        isKept[nodes[first].offset + choice] = 0;
  }
  for (unsigned node = 0; node < nodes.size(); ++node)
    for (auto [choice, own] : llvm::enumerate(choiceOf[node]))
      if (problem.getCosts(node)[own] == forbidden)
        isKept[nodes[leaderOf[node]].offset + choice] = 0;
  size_t messages = 0;
  for (auto &[pair, edges] : pairs) {
    linksOf[pair.first].push_back(links.size());
    linksOf[pair.second].push_back(links.size());
    links.push_back({pair.first, pair.second, std::move(edges), messages, {}});
    messages += nodes[pair.first].size + nodes[pair.second].size;
  }
  return true;
}

Cost CertificateReader::getPlainCost(const Link &link, unsigned first, unsigned second) const {
  if (!link.sums.empty())
    return link.sums[size_t(first) * nodes[link.second].size + second];
  Cost sum = 0;
  for (unsigned number : link.edges) {
    const Edge &edge = problem.getEdges()[number];
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    bool isTurned = leaderOf[edge.first] != link.first;
    unsigned row = choiceOf[edge.first][isTurned ? second : first];
    unsigned column = choiceOf[edge.second][isTurned ? first : second];
    int64_t cost = matrix.costs[size_t(row) * matrix.columns + column];
    if (cost == forbidden)
      return infinite;
    sum += cost;
  }
  return sum << Certificate::shift;
}

std::vector<unsigned> CertificateReader::getKept(unsigned leader) const {
  std::vector<unsigned> kept;
  for (unsigned choice = 0; choice < nodes[leader].size; ++choice)
    if (isGroupKept(leader, choice))
      kept.push_back(choice);
  return kept;
}

void CertificateReader::getPlainCosts(const Link &link, bool ofFirst, unsigned own,
                                      llvm::ArrayRef<unsigned> partners,
                                      std::vector<Cost> &costs) const {
  costs.assign(partners.size(), 0);
  if (!link.sums.empty()) {
    for (auto [sum, partner] : llvm::zip_equal(costs, partners))
      sum = ofFirst ? getPlainCost(link, own, partner) : getPlainCost(link, partner, own);
    return;
  }
  for (unsigned number : link.edges) {
    const Edge &edge = problem.getEdges()[number];
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    bool isRow = leaderOf[edge.first] == (ofFirst ? link.first : link.second);
    llvm::ArrayRef<unsigned> others = choiceOf[isRow ? edge.second : edge.first];
    size_t choice = choiceOf[isRow ? edge.first : edge.second][own];
    const int64_t *parts = &matrix.costs[isRow ? choice * matrix.columns : choice];
    size_t stride = isRow ? 1 : matrix.columns;
    for (auto [sum, partner] : llvm::zip_equal(costs, partners)) {
      int64_t part = parts[others[partner] * stride];
      sum = part == forbidden || sum == infinite ? infinite
                                                 : sum + (Cost(part) << Certificate::shift);
    }
  }
}

CertificateReader::Row CertificateReader::getRow(const Link &link, bool ofFirst,
                                                 unsigned own) const {
  const Edge &edge = problem.getEdges()[link.edges.front()];
  const Matrix &matrix = problem.getMatrices()[edge.matrix];
  bool isRow = leaderOf[edge.first] == (ofFirst ? link.first : link.second);
  size_t choice = choiceOf[isRow ? edge.first : edge.second][own];
  return {matrix.costs.data() + (isRow ? choice * matrix.columns : choice),
          choiceOf[isRow ? edge.second : edge.first].data(), isRow ? 1 : size_t(matrix.columns)};
}

Cost CertificateReader::getCost(const Link &link, unsigned first, unsigned second) const {
  Cost cost = getPlainCost(link, first, second);
  if (cost == infinite)
    return infinite;
  const Cost *messages = &certificate->messages[link.messages];
  return cost - messages[first] - messages[nodes[link.first].size + second];
}

bool CertificateReader::isImpossibleForGroup(unsigned leader, unsigned choice) const {
  return llvm::any_of(linksOf[leader], [&](unsigned number) {
    const Link &link = links[number];
    bool isFirst = link.first == leader;
    unsigned other = isFirst ? link.second : link.first;
    for (unsigned partner = 0; partner < nodes[other].size; ++partner)
      if (isGroupKept(other, partner) &&
          getPlainCost(link, isFirst ? choice : partner, isFirst ? partner : choice) != infinite)
        return false;
    return true;
  });
}

/// Whether the group is at least as well off with the other choice, whatever others choose.
bool CertificateReader::isReplaced(unsigned leader, unsigned choice, unsigned by) {
  std::vector<Cost> &sums = groupCosts[leader];
  if (sums.empty()) {
    sums.resize(nodes[leader].size);
    for (unsigned own = 0; own < nodes[leader].size; ++own) {
      if (!isGroupKept(leader, own))
        continue;
      for (unsigned member : members[leader])
        sums[own] += problem.getCosts(member)[choiceOf[member][own]];
      for (unsigned number : innerEdges[leader]) {
        const Edge &edge = problem.getEdges()[number];
        const Matrix &matrix = problem.getMatrices()[edge.matrix];
        sums[own] += matrix.costs[size_t(choiceOf[edge.first][own]) * matrix.columns +
                                  choiceOf[edge.second][own]];
      }
    }
  }
  for (unsigned member : members[leader])
    if (nodes[member].isLive() && problem.getUsages(member)[choiceOf[member][by]] >
                                      problem.getUsages(member)[choiceOf[member][choice]])
      return false;
  Cost difference = (sums[by] - sums[choice]) << Certificate::shift;
  for (unsigned number : linksOf[leader]) {
    const Link &link = links[number];
    bool isFirst = link.first == leader;
    unsigned other = isFirst ? link.second : link.first;
    std::vector<unsigned> &partners = leftOf[other];
    if (partners.empty())
      partners = getKept(other);
    // No difference is as small: without a partner it is impossible anyway.
    constexpr Cost none = -infinite;
    Cost worst = none;
    if (link.edges.size() == 1) {
      Row own = getRow(link, isFirst, choice), others = getRow(link, isFirst, by);
      for (unsigned partner : partners) {
        int64_t cost = own[partner];
        if (cost == forbidden)
          continue;
        if (others[partner] == forbidden)
          return false;
        worst = std::max(worst, Cost(others[partner]) - cost);
      }
      worst = worst == none ? none : worst << Certificate::shift;
    } else {
      getPlainCosts(link, isFirst, choice, partners, ownCosts);
      getPlainCosts(link, isFirst, by, partners, otherCosts);
      for (auto [own, others] : llvm::zip_equal(ownCosts, otherCosts)) {
        if (own == infinite)
          continue;
        if (others == infinite)
          return false;
        worst = std::max(worst, others - own);
      }
    }
    if (worst == none)
      return true;
    difference += worst;
  }
  return difference <= 0;
}

bool CertificateReader::checkGroupRemovals() {
  leftOf.assign(nodes.size(), {});
  for (auto [leader, choice, instead] : certificate->removedFromGroups) {
    if (leader >= nodes.size() || leaderOf[leader] != leader || choice >= nodes[leader].size)
      return false;
    if (!isGroupKept(leader, choice))
      continue;
    if (instead) {
      if (*instead >= nodes[leader].size || *instead == choice || !isGroupKept(leader, *instead) ||
          !isReplaced(leader, choice, *instead))
        return false;
    } else if (!isImpossibleForGroup(leader, choice)) {
      return false;
    }
    isKept[nodes[leader].offset + choice] = 0;
    leftOf[leader].clear();
  }
  leftOf.clear();
  for (unsigned leader : leaders) {
    const char *kept = &isKept[nodes[leader].offset];
    isInfeasible |= std::none_of(kept, kept + nodes[leader].size, [](char is) { return is; });
  }
  return true;
}

bool CertificateReader::reparametrise() {
  size_t expected = 0;
  for (const Link &link : links)
    expected += nodes[link.first].size + nodes[link.second].size;
  if (certificate->messages.size() != expected)
    return false;
  for (Cost message : certificate->messages)
    if (message > most || message < -most)
      return false;
  std::vector<int64_t> times;
  std::vector<Cost> sums{0};
  for (auto [time, price] : certificate->prices) {
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
  potentials.assign(problem.getCosts().size(), 0);
  bool isValid = true;
  auto add = [&](unsigned leader, unsigned choice, Cost part) {
    Cost &potential = potentials[nodes[leader].offset + choice];
    if (isGroupKept(leader, choice))
      isValid &= !__builtin_add_overflow(potential, part, &potential) && potential < most * 4 &&
                 potential > -most * 4;
  };
  for (auto [number, node] : llvm::enumerate(nodes)) {
    Cost price = 0;
    if (node.isLive())
      price = sums[llvm::lower_bound(times, node.end) - times.begin()] -
              sums[llvm::lower_bound(times, node.start) - times.begin()];
    std::vector<Cost> own;
    for (auto [cost, usage] :
         llvm::zip_equal(problem.getCosts(number), problem.getUsages(number))) {
      Cost used;
      // Removed choices are not looked at, whatever they say.
      bool isLarge = __builtin_mul_overflow(price, Cost(usage), &used) || used > most;
      own.push_back(cost == forbidden || isLarge ? infinite
                                                 : (Cost(cost) << Certificate::shift) + used);
    }
    for (auto [choice, taken] : llvm::enumerate(choiceOf[number]))
      add(leaderOf[number], choice, own[taken]);
  }
  for (const Edge &edge : problem.getEdges()) {
    if (leaderOf[edge.first] != leaderOf[edge.second])
      continue;
    unsigned leader = leaderOf[edge.first];
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    for (unsigned choice = 0; choice < nodes[leader].size; ++choice)
      if (isGroupKept(leader, choice))
        add(leader, choice,
            Cost(matrix.costs[size_t(choiceOf[edge.first][choice]) * matrix.columns +
                              choiceOf[edge.second][choice]])
                << Certificate::shift);
  }
  for (const Link &link : links) {
    const Cost *messages = &certificate->messages[link.messages];
    for (unsigned choice = 0; choice < nodes[link.first].size; ++choice)
      add(link.first, choice, *messages++);
    for (unsigned choice = 0; choice < nodes[link.second].size; ++choice)
      add(link.second, choice, *messages++);
  }
  for (auto [potential, kept] : llvm::zip_equal(potentials, isKept))
    if (!kept)
      potential = infinite;
  return isValid;
}

Cost CertificateReader::getLeast(unsigned leader) const {
  const Cost *own = &potentials[nodes[leader].offset];
  return *std::min_element(own, own + nodes[leader].size);
}

bool CertificateReader::sumUp() {
  auto add = [&](Cost part) { return !__builtin_add_overflow(bound, part, &bound); };
  std::vector<std::vector<unsigned>> kept(nodes.size());
  for (unsigned leader : leaders) {
    kept[leader] = getKept(leader);
    if (!add(getLeast(leader)))
      return false;
  }
  for (const Link &link : links) {
    Cost least = infinite;
    const Cost *firstMessages = &certificate->messages[link.messages];
    const Cost *secondMessages = firstMessages + nodes[link.first].size;
    llvm::ArrayRef<unsigned> seconds = kept[link.second];
    for (unsigned first : kept[link.first]) {
      Cost ofFirst = infinite;
      if (link.edges.size() == 1) {
        Row row = getRow(link, true, first);
        for (unsigned second : seconds)
          if (int64_t cost = row[second]; cost != forbidden)
            ofFirst =
                std::min(ofFirst, (Cost(cost) << Certificate::shift) - secondMessages[second]);
      } else {
        getPlainCosts(link, true, first, seconds, ownCosts);
        for (auto [cost, second] : llvm::zip_equal(ownCosts, seconds))
          if (cost != infinite)
            ofFirst = std::min(ofFirst, cost - secondMessages[second]);
      }
      if (ofFirst != infinite)
        least = std::min(least, ofFirst - firstMessages[first]);
    }
    // No pair of what is left may stand together.
    if (least == infinite) {
      isInfeasible = true;
      return true;
    }
    linkMinima.push_back(least);
    if (!add(least))
      return false;
  }
  return true;
}

bool CertificateReader::checkSteps() {
  return checkRemovals() && (isInfeasible || (contract() && checkGroupRemovals()));
}

std::optional<Bound> CertificateReader::checkDual(const Certificate &dual) {
  if (isInfeasible)
    return Bound{true, 0};
  certificate = &dual;
  linkMinima.clear();
  if (!reparametrise() || !sumUp())
    return std::nullopt;
  if (isInfeasible)
    return Bound{true, 0};
  // Costs are integers: the bound is rounded up.
  Cost unit = Cost(1) << Certificate::shift;
  Cost whole = bound >> Certificate::shift;
  return Bound{false, whole * unit == bound ? whole : whole + 1};
}

std::optional<Bound> CertificateReader::check() {
  return checkSteps() ? checkDual(*certificate) : std::nullopt;
}

std::optional<Bound> cleave::solve::check(const Problem &problem, const Certificate &certificate) {
  return CertificateReader(problem, certificate).check();
}
