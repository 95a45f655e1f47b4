// Random problems and their optimum by going through all assignments.

#ifndef CLEAVE_TEST_UNIT_LIB_SOLVE_RANDOMPROBLEMS_H
#define CLEAVE_TEST_UNIT_LIB_SOLVE_RANDOMPROBLEMS_H

#include "lib/solve/Problem.h"

#include <random>

namespace cleave::solve {

/// Nodes with up to four choices, some forbidden choices and pairs, parallel edges, loops of a node
/// to itself, memory from plentiful to too little.
inline Problem makeRandomProblem(std::mt19937_64 &random, unsigned maxNodes) {
  auto below = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
  Problem problem;
  unsigned nodes = 1 + below(maxNodes);
  int64_t range = below(3) == 0 ? 4 : 1000;
  bool isForbidding = below(2) == 0;
  auto cost = [&] {
    return isForbidding && below(6) == 0 ? forbidden
                                         : below(range) * (below(8) ? 1 : int64_t(1) << 50);
  };
  std::vector<int64_t> costs, usages;
  int64_t most = 0;
  for (unsigned node = 0; node < nodes; ++node) {
    unsigned size = 1 + below(4);
    costs.clear();
    usages.clear();
    for (unsigned choice = 0; choice < size; ++choice) {
      costs.push_back(cost());
      usages.push_back(below(20));
    }
    int64_t start = below(10);
    problem.addNode(start, start + below(8), costs, usages);
    most += 10;
  }
  for (int64_t edges = below(2 * nodes); edges > 0; --edges) {
    unsigned first = below(nodes), second = below(nodes);
    Matrix matrix{problem.getNodes()[first].size, problem.getNodes()[second].size, {}};
    for (size_t i = 0; i < size_t(matrix.rows) * matrix.columns; ++i)
      matrix.costs.push_back(cost());
    problem.addEdge(first, second, problem.addMatrix(std::move(matrix)));
  }
  problem.limit = below(most + 1);
  return problem;
}

/// Like makeRandomProblem(), with edges that leave one choice of one end to each of the other, some
/// of them at a cost, and cycles of such edges that do not agree.
inline Problem makeTiedProblem(std::mt19937_64 &random, unsigned maxNodes) {
  auto below = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
  Problem problem = makeRandomProblem(random, maxNodes);
  llvm::ArrayRef<Node> nodes = problem.getNodes();
  for (int64_t edges = below(nodes.size() + 1); edges > 0; --edges) {
    unsigned first = below(nodes.size()), second = below(nodes.size());
    Matrix matrix{nodes[first].size, nodes[second].size, {}};
    matrix.costs.assign(size_t(matrix.rows) * matrix.columns, forbidden);
    for (size_t row = 0; row < matrix.rows; ++row) {
      // In order mostly, as between a value and its gradient.
      size_t column = below(5) ? row % matrix.columns : below(matrix.columns);
      matrix.costs[row * matrix.columns + column] = below(2) ? 0 : below(50);
    }
    problem.addEdge(first, second, problem.addMatrix(std::move(matrix)));
  }
  return problem;
}

inline std::optional<Cost> findOptimum(const Problem &problem) {
  Assignment assignment(problem.getNodes().size(), 0);
  std::optional<Cost> best;
  while (true) {
    if (auto cost = problem.getCost(assignment);
        cost && (!best || *cost < *best) && problem.getPeak(assignment) <= problem.limit)
      best = cost;
    size_t node = 0;
    while (node < assignment.size() && ++assignment[node] == problem.getNodes()[node].size)
      assignment[node++] = 0;
    if (node == assignment.size())
      return best;
  }
}

} // namespace cleave::solve

#endif // CLEAVE_TEST_UNIT_LIB_SOLVE_RANDOMPROBLEMS_H
