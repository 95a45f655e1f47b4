//===- Dominance.cpp --------------------------------------------------------===//

#include "lib/solve/Dominance.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>

using namespace cleave::solve;

/// Entries of matrices compared; about a second.
static constexpr size_t mostCompared = 400'000'000;

namespace {

class Finder {
public:
  Finder(const Problem &problem, const PartUsages &usages, std::vector<Dominance::Removal> &removed,
         std::vector<std::vector<unsigned>> &replacements);

  void run();

private:
  struct Link {
    unsigned other;
    const int64_t *costs;
    size_t ownStride, otherStride;
  };
  bool isReplaced(unsigned node, unsigned choice, unsigned by);
  void findLeast(unsigned node);
  std::vector<int64_t> describe(unsigned node) const;
  /// Whether any choice went.
  bool thinOut(unsigned node);

  const Problem &problem;
  const PartUsages &usages;
  std::vector<Dominance::Removal> &removed;
  std::vector<std::vector<unsigned>> &replacements;
  std::vector<std::vector<Link>> links;
  std::vector<std::vector<unsigned>> left;
  /// Of the node at hand, by link and choice.
  std::vector<Cost> least;
  size_t compared = 0;
  /// Programs repeat their layers: what was found of nodes that are alike in all that counts.
  std::map<std::vector<int64_t>, std::vector<std::pair<unsigned, unsigned>>> known;
};

} // namespace

Finder::Finder(const Problem &problem, const PartUsages &usages,
               std::vector<Dominance::Removal> &removed,
               std::vector<std::vector<unsigned>> &replacements)
    : problem(problem), usages(usages), removed(removed), replacements(replacements),
      links(problem.getNodes().size()) {
  for (const Edge &edge : problem.getEdges()) {
    const Matrix &matrix = problem.getMatrices()[edge.matrix];
    links[edge.first].push_back({edge.second, matrix.costs.data(), matrix.columns, 1});
    links[edge.second].push_back({edge.first, matrix.costs.data(), 1, matrix.columns});
  }
  for (const Node &node : problem.getNodes()) {
    std::vector<unsigned> &choices = left.emplace_back(node.size);
    for (unsigned choice = 0; choice < node.size; ++choice)
      choices[choice] = choice;
    replacements.push_back(choices);
  }
}

bool Finder::isReplaced(unsigned node, unsigned choice, unsigned by) {
  for (const std::vector<int64_t> &part : usages[node])
    if (part[by] > part[choice])
      return false;
  // What all links cost more at least; most choices are ruled out before all partners are seen.
  size_t size = problem.getNodes()[node].size;
  Cost difference = Cost(problem.getCosts(node)[by]) - problem.getCosts(node)[choice];
  for (size_t link = 0; link < links[node].size(); ++link)
    difference += least[link * size + by] - least[link * size + choice];
  if (difference > 0)
    return false;
  for (auto [number, link] : llvm::enumerate(links[node])) {
    const int64_t *own = link.costs + choice * link.ownStride;
    const int64_t *others = link.costs + by * link.ownStride;
    difference -= least[number * size + by] - least[number * size + choice];
    Cost worst = -(Cost(1) << 100);
    for (unsigned partner : left[link.other]) {
      ++compared;
      int64_t cost = own[partner * link.otherStride], other = others[partner * link.otherStride];
      if (cost == forbidden)
        continue;
      if (other == forbidden)
        return false;
      worst = std::max(worst, Cost(other) - cost);
      if (difference + worst > 0)
        return false;
    }
    difference += worst;
  }
  return difference <= 0;
}

/// What each link costs at least, by choice; with no partner, as little as can be.
void Finder::findLeast(unsigned node) {
  size_t size = problem.getNodes()[node].size;
  least.assign(links[node].size() * size, 0);
  for (auto [number, link] : llvm::enumerate(links[node]))
    for (unsigned choice : left[node]) {
      const int64_t *own = link.costs + choice * link.ownStride;
      int64_t lowest = forbidden;
      for (unsigned partner : left[link.other])
        lowest = std::min(lowest, own[partner * link.otherStride]);
      compared += left[link.other].size();
      least[number * size + choice] = lowest;
    }
}

/// All that decides which of its choices go.
std::vector<int64_t> Finder::describe(unsigned node) const {
  std::vector<int64_t> key;
  auto add = [&](const auto &numbers) {
    key.push_back(static_cast<int64_t>(numbers.size()));
    llvm::append_range(key, numbers);
  };
  add(left[node]);
  add(problem.getCosts(node));
  for (const std::vector<int64_t> &part : usages[node])
    add(part);
  for (const Link &link : links[node]) {
    key.push_back(reinterpret_cast<intptr_t>(link.costs));
    key.push_back(static_cast<int64_t>(link.ownStride));
    add(left[link.other]);
  }
  return key;
}

bool Finder::thinOut(unsigned node) {
  auto [entry, isNew] = known.try_emplace(describe(node));
  std::vector<unsigned> &own = left[node];
  if (!isNew) {
    for (auto [choice, by] : entry->second) {
      removed.push_back({node, choice, by});
      replacements[node][choice] = by;
      own.erase(llvm::find(own, choice));
    }
    return !entry->second.empty();
  }
  findLeast(node);
  for (size_t i = 0; i < own.size() && compared < mostCompared;) {
    unsigned choice = own[i];
    auto by = llvm::find_if(
        own, [&](unsigned other) { return other != choice && isReplaced(node, choice, other); });
    if (by == own.end()) {
      ++i;
      continue;
    }
    removed.push_back({node, choice, *by});
    entry->second.push_back({choice, *by});
    replacements[node][choice] = *by;
    own.erase(own.begin() + i);
  }
  return !entry->second.empty();
}

void Finder::run() {
  std::deque<unsigned> queue;
  std::vector<char> isQueued(links.size(), 1);
  for (unsigned node = 0; node < links.size(); ++node)
    queue.push_back(node);
  while (!queue.empty() && compared < mostCompared) {
    unsigned node = queue.front();
    queue.pop_front();
    isQueued[node] = 0;
    if (!thinOut(node))
      continue;
    // With fewer choices beside them, others may be worse than some.
    for (const Link &link : links[node])
      if (!isQueued[link.other]) {
        isQueued[link.other] = 1;
        queue.push_back(link.other);
      }
  }
}

Dominance::Dominance(const Problem &problem, const PartUsages &usages) {
  Finder(problem, usages, removed, replacements).run();
}

unsigned Dominance::replace(unsigned node, unsigned choice) const {
  while (replacements[node][choice] != choice)
    choice = replacements[node][choice];
  return choice;
}
