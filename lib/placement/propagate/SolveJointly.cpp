//===- SolveJointly.cpp - decides all axes at once ---------------------------===//

#include "lib/placement/propagate/SolveJointly.h"
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

LogicalResult propagate::solveJointly(Propagation &p, const SolveOptions &options) {
  FailureOr<JointChoices> choices = JointChoices::collect(*p.graph, p.axes);
  if (failed(choices))
    return failure();
  JointCosts costs(p.axes, p.machine, options.cluster ? &*options.cluster : nullptr);
  JointProblem problem(*p.graph, *choices, costs);

  solve::SolveOptions solving;
  solving.seed = options.seed;
  solving.moves = options.moves;
  solve::SolveResult result = solve::solve(problem.getProblem(), solving);
  if (!result.assignment)
    return p.mesh.emitError(result.hasBound && result.bound.isInfeasible
                                ? "no placement of the program meets its annotations"
                                : "no placement was found that meets the program's annotations");
  takeChoices(p, *choices, problem, *result.assignment);
  p.report = SolveReport{JointProblem::toSeconds(result.cost),
                         result.hasBound ? JointProblem::toSeconds(result.bound.cost) : 0};
  return success();
}
