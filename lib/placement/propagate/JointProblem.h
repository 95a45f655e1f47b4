//===- JointProblem.h - placing a program on all axes at once -------*- C++ -*-===//
//
// A node for each op (its strategies along all axes), each group (how its ports are placed) and
// each value with several uses: the form in which all of them have it, reached once from how the
// value is made. Edges are redistributions. The solver (lib/solve) finds the choices and proves how
// much cheaper others could be; docs/planner.md says what this means.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTPROBLEM_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTPROBLEM_H

#include "lib/placement/propagate/JointChoices.h"
#include "lib/placement/propagate/JointCosts.h"
#include "lib/placement/propagate/Lifetimes.h"
#include "lib/solve/Solve.h"

namespace cleave::placement::propagate {

class JointProblem {
public:
  /// `memory`: bytes that a rank may hold; none: as many as it takes.
  JointProblem(const Graph &graph, const JointChoices &choices, JointCosts &costs,
               std::optional<int64_t> memory = std::nullopt);

  const solve::Problem &getProblem() const { return problem; }
  /// The choice of an op, or of the group after all ops.
  unsigned getChoice(llvm::ArrayRef<unsigned> assignment, unsigned variable) const {
    return assignment[nodes[variable]];
  }
  /// Gives each value that several uses share the best of the forms that placing makes: what it is
  /// made in, or what one of the uses takes. The solver may have gone by another one, which no
  /// placement says; so a solution may cost more as placed. Left as it is where this needs more
  /// memory than there is.
  solve::Assignment settleForms(solve::Assignment assignment);
  /// Of a step, from the solver's units.
  static double toSeconds(solve::Cost cost) { return static_cast<double>(cost) * secondsPerUnit; }

private:
  static constexpr double secondsPerUnit = 1e-12;
  static int64_t toUnits(double seconds);
  void addNodes();
  void addGroup(unsigned group);
  void addOp(unsigned op);
  void addForms(unsigned value);
  void addUses(unsigned value, const SharedUses &uses, unsigned form);
  /// The same cost of a form of the value by itself; none where it is forbidden.
  std::optional<int64_t> costOf(unsigned value, const SharedUses &uses,
                                llvm::ArrayRef<unsigned> assignment, unsigned placement);
  void addFixed(unsigned value, unsigned use);
  /// Adds what a rank holds of the value in each placement of the list.
  void addBytes(unsigned value, const std::vector<unsigned> &list, std::vector<int64_t> &sums);
  /// Numbers of lists: how the value is made, how the use takes it, and both of all of these.
  unsigned made(unsigned value) { return numberOf(choices.made[value]); }
  unsigned taken(unsigned use) { return numberOf(choices.taken[use]); }
  unsigned formsOf(unsigned value, llvm::ArrayRef<unsigned> uses);
  unsigned numberOf(unsigned list);
  const std::vector<int64_t> &secondsOf(unsigned op);
  unsigned matrixOf(mlir::RankedTensorType type, unsigned from, unsigned to, double weight,
                    bool mayDiffer = true);

  const Graph &graph;
  const JointChoices &choices;
  JointCosts &costs;
  bool countsMemory;
  Lifetimes lifetimes;
  solve::Problem problem;
  /// By variable.
  std::vector<unsigned> nodes;
  /// By value and its shared uses; kNone where there is no form.
  std::vector<llvm::SmallVector<unsigned, 1>> forms;
  /// Those of `choices`, and of the forms of shared values.
  Numbering<std::vector<unsigned>> lists;
  /// By number of a list of `choices`; and of the forms of such, by these.
  std::vector<unsigned> numbers;
  std::map<std::vector<unsigned>, unsigned> formNumbers;
  /// Of ops of one class in functions that run equally often, in the solver's units.
  std::map<std::pair<unsigned, double>, std::vector<int64_t>> workOf;
  /// By type and list.
  std::map<std::pair<const void *, const std::vector<unsigned> *>, std::vector<int64_t>> bytes;
  using MatrixKey = std::tuple<const void *, unsigned, unsigned, double, bool>;
  std::map<MatrixKey, unsigned> matrices;
  /// By type, and by both placements.
  llvm::DenseMap<mlir::Type, llvm::DenseMap<std::pair<unsigned, unsigned>, int64_t>> known;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTPROBLEM_H
