//===- Reduction.cpp - consistency of pairs and of memory -----------------===//

#include "lib/solve/Reduction.h"

#include "lib/solve/LiveRanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <deque>

using namespace cleave::solve;

namespace {

class Reducer {
public:
  explicit Reducer(const Problem &problem, Reduction &result);

  void run();

private:
  void remove(unsigned node, unsigned choice);
  /// Removes the choices of one end of the edge that no choice of the other end may stand beside.
  void revise(const Edge &edge, bool ofFirst);
  void propagate();
  /// Returns whether choices were removed for memory.
  bool fitMemory();
  void build();

  bool isKept(unsigned node, unsigned choice) const { return alive[nodes[node].offset + choice]; }

  const Problem &whole;
  llvm::ArrayRef<Node> nodes;
  Reduction &result;
  LiveRanges live;
  std::vector<char> alive;
  std::vector<unsigned> left;
  std::vector<std::vector<unsigned>> edgesOf;
  std::deque<unsigned> changed;
  std::vector<char> isQueued;
};

} // namespace

Reducer::Reducer(const Problem &problem, Reduction &result)
    : whole(problem), nodes(problem.getNodes()), result(result), live(problem),
      alive(problem.getCosts().size(), 1), edgesOf(nodes.size()), isQueued(nodes.size()) {
  for (const Node &node : nodes)
    left.push_back(node.size);
  for (auto [number, edge] : llvm::enumerate(problem.getEdges())) {
    edgesOf[edge.first].push_back(number);
    edgesOf[edge.second].push_back(number);
  }
}

void Reducer::remove(unsigned node, unsigned choice) {
  alive[nodes[node].offset + choice] = 0;
  result.removed.push_back({node, choice});
  if (--left[node] == 0)
    result.isInfeasible = true;
  if (!isQueued[node])
    changed.push_back(node);
  isQueued[node] = 1;
}

void Reducer::revise(const Edge &edge, bool ofFirst) {
  const Matrix &matrix = whole.getMatrices()[edge.matrix];
  unsigned own = ofFirst ? edge.first : edge.second, other = ofFirst ? edge.second : edge.first;
  size_t ownStride = ofFirst ? matrix.columns : 1, otherStride = ofFirst ? 1 : matrix.columns;
  for (unsigned choice = 0; choice < nodes[own].size; ++choice) {
    if (!isKept(own, choice))
      continue;
    bool hasPartner = false;
    for (unsigned partner = 0; partner < nodes[other].size && !hasPartner; ++partner)
      hasPartner = isKept(other, partner) &&
                   matrix.costs[choice * ownStride + partner * otherStride] != forbidden;
    if (!hasPartner)
      remove(own, choice);
  }
}

void Reducer::propagate() {
  while (!changed.empty() && !result.isInfeasible) {
    unsigned node = changed.front();
    changed.pop_front();
    isQueued[node] = 0;
    for (unsigned number : edgesOf[node]) {
      const Edge &edge = whole.getEdges()[number];
      revise(edge, edge.second == node);
    }
  }
}

bool Reducer::fitMemory() {
  std::vector<int64_t> least(nodes.size());
  std::vector<Cost> present(live.times.size() + 1);
  for (unsigned node = 0; node < nodes.size(); ++node) {
    int64_t lowest = INT64_MAX;
    for (unsigned choice = 0; choice < nodes[node].size; ++choice)
      if (isKept(node, choice))
        lowest = std::min(lowest, whole.getUsages(node)[choice]);
    least[node] = lowest;
    present[live.ranges[node].first] += lowest;
    present[live.ranges[node].last] -= lowest;
  }
  for (size_t point = 1; point < present.size(); ++point)
    present[point] += present[point - 1];
  // The largest sum of a range of points, from a table by powers of two.
  std::vector<std::vector<Cost>> peaks{present};
  for (size_t width = 1; 2 * width <= present.size(); width *= 2) {
    std::vector<Cost> &narrow = peaks.back();
    std::vector<Cost> wide(present.size());
    for (size_t point = 0; point + 2 * width <= present.size(); ++point)
      wide[point] = std::max(narrow[point], narrow[point + width]);
    peaks.push_back(std::move(wide));
  }
  bool anyRemoved = false;
  for (unsigned node = 0; node < nodes.size() && !result.isInfeasible; ++node) {
    PointRange range = live.ranges[node];
    if (range.isEmpty())
      continue;
    unsigned level = llvm::Log2_32(range.last - range.first);
    Cost peak = std::max(peaks[level][range.first], peaks[level][range.last - (1u << level)]);
    for (unsigned choice = 0; choice < nodes[node].size; ++choice)
      if (isKept(node, choice) &&
          peak - least[node] + whole.getUsages(node)[choice] > Cost(whole.limit)) {
        remove(node, choice);
        anyRemoved = true;
      }
  }
  return anyRemoved;
}

void Reducer::build() {
  Problem &problem = result.problem;
  problem.limit = whole.limit;
  std::vector<int64_t> costs, usages;
  std::map<std::vector<unsigned>, unsigned> keptSets;
  std::vector<unsigned> setOf;
  for (unsigned node = 0; node < nodes.size(); ++node) {
    std::vector<unsigned> &kept = result.kept.emplace_back();
    costs.clear();
    usages.clear();
    for (unsigned choice = 0; choice < nodes[node].size; ++choice)
      if (isKept(node, choice)) {
        kept.push_back(choice);
        costs.push_back(whole.getCosts(node)[choice]);
        usages.push_back(whole.getUsages(node)[choice]);
      }
    setOf.push_back(keptSets.try_emplace(kept, keptSets.size()).first->second);
    problem.addNode(nodes[node].start, nodes[node].end, costs, usages);
  }
  std::map<std::tuple<unsigned, unsigned, unsigned>, unsigned> matrices;
  for (const Edge &edge : whole.getEdges()) {
    auto [known, isNew] =
        matrices.try_emplace({edge.matrix, setOf[edge.first], setOf[edge.second]}, matrices.size());
    if (isNew) {
      const Matrix &matrix = whole.getMatrices()[edge.matrix];
      const auto &rows = result.kept[edge.first], &columns = result.kept[edge.second];
      Matrix part{static_cast<unsigned>(rows.size()), static_cast<unsigned>(columns.size()), {}};
      for (size_t row : rows)
        for (size_t column : columns)
          part.costs.push_back(matrix.costs[row * matrix.columns + column]);
      known->second = problem.addMatrix(std::move(part));
    }
    problem.addEdge(edge.first, edge.second, known->second);
  }
}

void Reducer::run() {
  for (unsigned node = 0; node < nodes.size(); ++node)
    for (unsigned choice = 0; choice < nodes[node].size; ++choice)
      if (whole.getCosts(node)[choice] == forbidden)
        remove(node, choice);
  for (const Edge &edge : whole.getEdges()) {
    revise(edge, true);
    revise(edge, false);
  }
  do {
    propagate();
  } while (!result.isInfeasible && fitMemory());
  if (!result.isInfeasible)
    build();
}

Reduction::Reduction(const Problem &problem) {
  Reducer(problem, *this).run();
}

Assignment Reduction::expand(llvm::ArrayRef<unsigned> assignment) const {
  Assignment whole;
  for (auto [choices, choice] : llvm::zip_equal(kept, assignment))
    whole.push_back(choices[choice]);
  return whole;
}
