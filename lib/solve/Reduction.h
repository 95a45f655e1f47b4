//===- Reduction.h - choices that no solution takes -*- C++ -*-===//
//
// A choice goes if it is forbidden, if a neighbour has no choice left that may stand beside it, or
// if it does not fit into memory even where all other nodes use as little as they can. What is left
// is a smaller problem with the same solutions.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_REDUCTION_H
#define CLEAVE_LIB_SOLVE_REDUCTION_H

#include "lib/solve/Problem.h"

namespace cleave::solve {

struct Reduction {
  explicit Reduction(const Problem &problem);

  /// Node and choice, each of them impossible given those before it.
  std::vector<std::pair<unsigned, unsigned>> removed;
  /// Whether a node has no choice left; then there is no problem.
  bool isInfeasible = false;
  Problem problem;
  /// By node of the smaller problem: its choices' numbers in the whole one.
  std::vector<std::vector<unsigned>> kept;

  Assignment expand(llvm::ArrayRef<unsigned> assignment) const;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_REDUCTION_H
