//===- AxisProblem.h - placing a program along one axis, as costs ---*- C++ -*-===//
//
// A variable for each op (its strategy) and each group (how its ports are placed); a table for what
// each value costs: the redistributions from how it is made to how its uses take it, each different
// one paid once; a table for the work of each op.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_AXISPROBLEM_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_AXISPROBLEM_H

#include "lib/placement/propagate/Candidates.h"
#include "lib/placement/propagate/MachineModel.h"
#include "lib/placement/propagate/Solver.h"

namespace cleave::placement::propagate {

class AxisProblem {
public:
  /// Along `axes[earlier.size()]`, after those before it.
  AxisProblem(const Graph &graph, const Candidates &candidates, llvm::ArrayRef<MeshAxis> axes,
              const MachineModel &machine, llvm::ArrayRef<AxisSolution> earlier);

  /// The cheapest choices found.
  AxisSolution solve();

  /// The problem in the solver's terms, whose variables are the ops and then the groups.
  const CostProblem &getProblem() const { return problem; }
  bool isOptimal() const { return solution.isOptimal; }

  /// What the op costs by another of its candidates, in seconds per step, all else being as solved:
  /// its work and the redistributions of what it takes and gives.
  double costOf(unsigned op, unsigned candidate) const;
  /// The same for a group.
  double costOfGroup(unsigned group, unsigned choice) const;
  unsigned getChoice(unsigned op) const { return solution.assignment[op]; }
  unsigned getGroupChoice(unsigned group) const {
    return solution.assignment[graph.ops.size() + group];
  }

private:
  dist::AxisPlacement getMade(const ValueNode &value, unsigned choice) const;
  dist::AxisPlacement getTaken(const Use &use, unsigned choice) const;
  unsigned producerOf(const ValueNode &value) const;
  unsigned userOf(const Use &use) const;
  double getWork(unsigned op, const AxisStrategy &strategy) const;
  /// The cost of a group itself, without redistributions.
  double getGroupCost(unsigned group, const GroupChoice &choice) const;
  double getRedistribution(const Use &use, dist::AxisPlacement made, dist::AxisPlacement taken,
                           double bytes) const;
  double costOfValue(unsigned value, llvm::function_ref<unsigned(unsigned)> choiceOf) const;
  double costOfVariable(unsigned variable, unsigned choice) const;
  void addValue(unsigned value);
  std::vector<unsigned> makeInitial() const;

  const Graph &graph;
  const Candidates &candidates;
  MeshAxis axis;
  cost::Cluster cluster;
  /// What of the work on terms of a sum counts, beyond that on parts.
  double termsWeight;
  llvm::ArrayRef<AxisSolution> earlier;
  AxisCosts costs;
  CostProblem problem;
  CostProblem::Solution solution;
  /// By value: its bytes where earlier axes share it out. By use: a number for how earlier axes
  /// take it (uses of a value that are taken alike are redistributed together), and its bytes then.
  std::vector<double> useBytes;
  std::vector<unsigned> useKeys;
  /// Work by op, in seconds, if one rank did all that earlier axes leave.
  std::vector<double> work;
  /// By variable, the values it makes or takes.
  std::vector<llvm::SmallVector<unsigned, 4>> valuesOf;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_AXISPROBLEM_H
