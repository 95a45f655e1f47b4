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
  /// Whether any choice went.
  bool thinOut(unsigned node);

  const Problem &problem;
  const PartUsages &usages;
  std::vector<Dominance::Removal> &removed;
  std::vector<std::vector<unsigned>> &replacements;
  std::vector<std::vector<Link>> links;
  std::vector<std::vector<unsigned>> left;
  size_t compared = 0;
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
  Cost difference = Cost(problem.getCosts(node)[by]) - problem.getCosts(node)[choice];
  for (const Link &link : links[node]) {
    const int64_t *own = link.costs + choice * link.ownStride;
    const int64_t *others = link.costs + by * link.ownStride;
    Cost worst = -(Cost(1) << 100);
    compared += left[link.other].size();
    for (unsigned partner : left[link.other]) {
      int64_t cost = own[partner * link.otherStride], other = others[partner * link.otherStride];
      if (cost == forbidden)
        continue;
      if (other == forbidden)
        return false;
      worst = std::max(worst, Cost(other) - cost);
    }
    difference += worst;
  }
  return difference <= 0;
}

bool Finder::thinOut(unsigned node) {
  std::vector<unsigned> &own = left[node];
  bool any = false;
  for (size_t i = 0; i < own.size() && compared < mostCompared;) {
    unsigned choice = own[i];
    auto by = llvm::find_if(
        own, [&](unsigned other) { return other != choice && isReplaced(node, choice, other); });
    if (by == own.end()) {
      ++i;
      continue;
    }
    removed.push_back({node, choice, *by});
    replacements[node][choice] = *by;
    own.erase(own.begin() + i);
    any = true;
  }
  return any;
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
