//===- LeastMemory.cpp - what a placement takes at least, and what does ------===//

#include "lib/placement/propagate/LeastMemory.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;

LeastMemory propagate::sumLeast(const Graph &graph, const solve::Problem &problem) {
  ArrayRef<solve::Node> nodes = problem.getNodes();
  auto leastOf = [&](size_t node) { return *llvm::min_element(problem.getUsages(node)); };
  // What groups hold, they hold from the beginning to the end.
  auto isGroup = [&](const solve::Node &node) {
    return node.start == 0 && node.end == static_cast<int64_t>(graph.ops.size()) + 1;
  };
  LeastMemory least;
  std::vector<std::tuple<int64_t, solve::Cost>> events;
  for (size_t node = 0; node < nodes.size(); ++node)
    if (isGroup(nodes[node])) {
      least.held += leastOf(node);
    } else if (nodes[node].isLive()) {
      events.push_back({nodes[node].start, leastOf(node)});
      events.push_back({nodes[node].end, -leastOf(node)});
    }
  llvm::sort(events);
  solve::Cost present = 0;
  for (auto [at, change] : events)
    if ((present += change) > least.peak) {
      least.peak = present;
      least.time = at;
    }
  return least;
}

std::optional<int64_t> propagate::findEnough(solve::Problem problem, const LeastMemory &least,
                                             solve::SolveOptions options) {
  // Whatever fits is enough.
  options.gap = 1;
  std::optional<int64_t> enough;
  auto tryLimit = [&](double limit) {
    problem.limit = static_cast<int64_t>(std::min(limit, 9e18));
    solve::SolveResult result = solve::solve(problem, options);
    if (result.assignment)
      enough = static_cast<int64_t>(problem.getPeak(*result.assignment));
    return result.assignment.has_value();
  };
  // Up from what is certainly needed, by more and more of it.
  constexpr double firstStep = 0.01;
  constexpr unsigned mostSteps = 12;
  auto tooLittle = static_cast<double>(least.whole()) - 1;
  double base = tooLittle + 1, step = 0;
  for (unsigned i = 0; i < mostSteps && !tryLimit(base * (1 + step)); ++i) {
    tooLittle = base * (1 + step);
    step = step == 0 ? firstStep : 2 * step;
  }
  if (!enough && !tryLimit(9e18))
    return std::nullopt;
  // Small problems are solved exactly; of large ones a hundredth is close enough.
  bool isExact = problem.getNodes().size() <= solve::mostToExhaust;
  auto tolerance = [&] { return isExact ? 1 : 0.01 * static_cast<double>(*enough); };
  while (static_cast<double>(*enough) - tooLittle > tolerance()) {
    double middle = std::floor((tooLittle + static_cast<double>(*enough)) / 2);
    if (!tryLimit(middle))
      tooLittle = middle;
  }
  return enough;
}
