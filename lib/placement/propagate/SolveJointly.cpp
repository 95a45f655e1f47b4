//===- SolveJointly.cpp - decides all axes at once ---------------------------===//

#include "lib/placement/propagate/SolveJointly.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/placement/propagate/LeastMemory.h"

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

static std::string describe(solve::Cost bytes) {
  return memory::describeBytes(static_cast<int64_t>(bytes));
}

/// To be given as a limit.
static std::string describeExactly(int64_t bytes) {
  return std::to_string(bytes) + " bytes (" + memory::describeBytes(bytes) + ")";
}

/// Refuses a limit that not even the least of every value would meet, and says what binds: where
/// the sum of these is largest, of what it consists, and what would do.
static LogicalResult refuseLimit(Propagation &p, const solve::Problem &problem,
                                 const LeastMemory &least, const solve::SolveOptions &options) {
  InFlightDiagnostic diagnostic =
      p.mesh.emitError("no placement fits into ")
      << describe(problem.limit) << " per rank: with every tensor divided as far as it may be, "
      << describe(least.held) << " are parameters, their gradients and states, and inputs";
  if (least.peak > 0)
    diagnostic << ", and " << describe(least.peak) << " other values";
  if (std::optional<int64_t> enough = findEnough(problem, least, options))
    diagnostic << "; " << describeExactly(*enough) << " are enough";
  if (least.peak > 0)
    diagnostic.attachNote(
        p.graph->ops[std::min<size_t>(least.time, p.graph->ops.size() - 1)].op->getLoc())
        << "most of these are held here";
  return diagnostic;
}

/// `enough`: bytes that would do, where memory is limited and any would.
static LogicalResult noPlacement(Propagation &p, const solve::SolveResult &result,
                                 std::optional<int64_t> memory, std::optional<int64_t> enough) {
  bool isInfeasible = result.hasBound && result.bound.isInfeasible;
  InFlightDiagnostic diagnostic = p.mesh.emitError(
      isInfeasible ? "no placement of the program" : "no placement of the program was found that");
  diagnostic << " meets its annotations";
  if (enough)
    diagnostic << " and fits into " << describe(*memory) << " per rank; "
               << describeExactly(*enough) << " are enough";
  return diagnostic;
}

LogicalResult propagate::solveJointly(Propagation &p, const SolveOptions &options) {
  FailureOr<JointChoices> choices = JointChoices::collect(*p.graph, p.axes);
  if (failed(choices))
    return failure();
  JointCosts costs(p.axes, p.machine);
  JointProblem problem(*p.graph, *choices, costs, options.memory);
  solve::SolveOptions solving;
  solving.seed = options.seed;
  solving.moves = options.moves;
  solving.gap = options.gap;
  LeastMemory least = sumLeast(*p.graph, problem.getProblem());
  if (least.whole() > problem.getProblem().limit)
    return refuseLimit(p, problem.getProblem(), least, solving);
  solve::SolveResult result = solve::solve(problem.getProblem(), solving);
  if (!result.assignment)
    return noPlacement(p, result, options.memory,
                       options.memory ? findEnough(problem.getProblem(), least, solving)
                                      : std::nullopt);
  result.assignment = problem.settleForms(std::move(*result.assignment));
  result.cost = *problem.getProblem().getCost(*result.assignment);
  takeChoices(p, *choices, problem, *result.assignment);
  p.report =
      SolveReport{JointProblem::toSeconds(result.cost),
                  result.hasBound ? JointProblem::toSeconds(result.bound.cost) : 0, std::nullopt};
  if (options.memory)
    p.report->memory = static_cast<int64_t>(problem.getProblem().getPeak(*result.assignment));
  return success();
}
