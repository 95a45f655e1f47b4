//===- Solver.h - the cheapest joint choice of many small variables -*- C++ -*-===//
//
// A problem is a set of variables with a few choices each, and tables that say what a combination
// of the choices of some variables costs. The cheapest assignment is found by eliminating one
// variable after the other: all tables that mention it become one, in which it takes its best
// choice given the others. That is exact, and near-linear where few variables hang together, as in
// the graphs of neural networks. Where a table would grow too large, a variable is held at its
// present choice instead, and further rounds hold others: no round makes the assignment worse.
// Knows nothing of MLIR or placements.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVER_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace cleave::placement::propagate {

class CostProblem {
public:
  /// A variable with that many choices, at least one; returns its number.
  unsigned addVariable(unsigned choices);
  unsigned getNumVariables() const { return sizes.size(); }
  unsigned getNumChoices(unsigned variable) const { return sizes[variable]; }

  /// What each combination of choices of these variables costs. `variables` are different and in
  /// rising order; the table is row-major: the last variable's choice varies fastest.
  void addTable(llvm::ArrayRef<unsigned> variables, std::vector<double> costs);

  /// The sum of all tables.
  double evaluate(llvm::ArrayRef<unsigned> assignment) const;

  struct Options {
    /// The largest table that elimination may make, in entries.
    size_t maxTable = 1 << 14;
    /// How often to try again, where variables had to be held.
    unsigned maxRounds = 4;
  };
  struct Solution {
    std::vector<unsigned> assignment;
    double cost = 0;
    /// Whether no variable had to be held: no assignment is cheaper.
    bool isOptimal = true;
  };
  /// Starts from `initial`, which has a choice for each variable. Of assignments that cost the same
  /// it prefers lower choices; the same problem always has the same solution.
  Solution solve(llvm::ArrayRef<unsigned> initial, const Options &options) const;
  Solution solve(llvm::ArrayRef<unsigned> initial) const { return solve(initial, Options()); }

private:
  friend class Elimination;

  struct Table {
    llvm::SmallVector<unsigned, 4> variables;
    std::vector<double> costs;
  };
  std::vector<unsigned> sizes;
  std::vector<Table> tables;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVER_H
