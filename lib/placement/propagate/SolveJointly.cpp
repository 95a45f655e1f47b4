//===- SolveJointly.cpp - decides all axes at once ---------------------------===//

#include "lib/placement/propagate/SolveJointly.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/placement/propagate/JointProblem.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using dist::PlacementAttr;

/// Reads what was chosen.
static void takeChoices(Propagation &p, const JointChoices &choices, const JointProblem &problem,
                        ArrayRef<unsigned> assignment) {
  const Graph &graph = *p.graph;
  auto mesh = FlatSymbolRefAttr::get(p.mesh.getContext(), p.mesh.getSymName());
  for (auto [number, axis] : llvm::enumerate(p.axes)) {
    AxisSolution &solution = p.solutions.emplace_back();
    solution.axis = axis;
    for (unsigned op = 0; op < graph.ops.size(); ++op)
      solution.strategies.push_back(
          choices.getStrategy(op, problem.getChoice(assignment, op), number));
  }
  auto take = [&](unsigned list, unsigned variable, auto member, PlacementAttr &attribute) {
    const MeshPlacement &placement =
        choices.getPlacement(choices.lists[list][problem.getChoice(assignment, variable)]);
    SmallVector<dist::AxisEntry> entries;
    for (auto [axis, entry, solution] : llvm::zip_equal(p.axes, placement, p.solutions)) {
      entries.push_back({axis.name, entry});
      (solution.*member).push_back(entry);
      (solution.*member).back().order = 0;
    }
    attribute = PlacementAttr::get(mesh, entries);
  };
  p.made.resize(graph.values.size());
  p.taken.resize(graph.uses.size());
  for (auto [number, value] : llvm::enumerate(graph.values))
    take(choices.made[number], choices.producerOf(value), &AxisSolution::made, p.made[number]);
  for (auto [number, use] : llvm::enumerate(graph.uses))
    take(choices.taken[number], choices.userOf(use), &AxisSolution::taken, p.taken[number]);
}

/// Refuses a limit that not even the least of every value would meet, and says what binds: where
/// the sum of these is largest, and of what it consists.
static LogicalResult checkLeast(Propagation &p, const solve::Problem &problem) {
  ArrayRef<solve::Node> nodes = problem.getNodes();
  auto leastOf = [&](size_t node) { return *llvm::min_element(problem.getUsages(node)); };
  // What groups hold, they hold from the beginning to the end.
  auto isGroup = [&](const solve::Node &node) {
    return node.start == 0 && node.end == static_cast<int64_t>(p.graph->ops.size()) + 1;
  };
  solve::Cost held = 0, present = 0, peak = -1;
  std::vector<std::tuple<int64_t, solve::Cost>> events;
  for (size_t node = 0; node < nodes.size(); ++node)
    if (isGroup(nodes[node])) {
      held += leastOf(node);
    } else if (nodes[node].isLive()) {
      events.push_back({nodes[node].start, leastOf(node)});
      events.push_back({nodes[node].end, -leastOf(node)});
    }
  llvm::sort(events);
  int64_t time = 0;
  for (auto [at, change] : events)
    if ((present += change) > peak) {
      peak = present;
      time = at;
    }
  if (held + std::max<solve::Cost>(peak, 0) <= problem.limit)
    return success();
  auto describe = [](solve::Cost bytes) {
    return memory::describeBytes(static_cast<int64_t>(bytes));
  };
  InFlightDiagnostic diagnostic =
      p.mesh.emitError("no placement fits into ")
      << describe(problem.limit) << " per rank: with every tensor divided as far as it may be, "
      << describe(held) << " are parameters, their gradients and states, and inputs";
  if (peak > 0) {
    diagnostic << ", and " << describe(peak) << " other values";
    diagnostic.attachNote(
        p.graph->ops[std::min<size_t>(time, p.graph->ops.size() - 1)].op->getLoc())
        << "most of these are held here";
  }
  return diagnostic;
}

static LogicalResult noPlacement(Propagation &p, const solve::SolveResult &result,
                                 std::optional<int64_t> memory) {
  bool isInfeasible = result.hasBound && result.bound.isInfeasible;
  InFlightDiagnostic diagnostic = p.mesh.emitError(
      isInfeasible ? "no placement of the program" : "no placement of the program was found that");
  diagnostic << " meets its annotations";
  if (memory)
    diagnostic << " and fits into " << memory::describeBytes(*memory) << " per rank";
  return diagnostic;
}

LogicalResult propagate::solveJointly(Propagation &p, const SolveOptions &options) {
  FailureOr<JointChoices> choices = JointChoices::collect(*p.graph, p.axes);
  if (failed(choices))
    return failure();
  JointCosts costs(p.axes, p.machine);
  JointProblem problem(*p.graph, *choices, costs, options.memory);
  if (options.memory && failed(checkLeast(p, problem.getProblem())))
    return failure();

  solve::SolveOptions solving;
  solving.seed = options.seed;
  solving.moves = options.moves;
  solving.gap = options.gap;
  solve::SolveResult result = solve::solve(problem.getProblem(), solving);
  if (!result.assignment)
    return noPlacement(p, result, options.memory);
  takeChoices(p, *choices, problem, *result.assignment);
  p.report =
      SolveReport{JointProblem::toSeconds(result.cost),
                  result.hasBound ? JointProblem::toSeconds(result.bound.cost) : 0, std::nullopt};
  if (options.memory)
    p.report->memory = static_cast<int64_t>(problem.getProblem().getPeak(*result.assignment));
  return success();
}
