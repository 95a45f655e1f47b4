//===- PairCosts.h - matrices in both orders --------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_PAIRCOSTS_H
#define CLEAVE_LIB_SOLVE_PAIRCOSTS_H

#include "lib/solve/Kernels.h"
#include "lib/solve/Problem.h"

#include <vector>

namespace cleave::solve {

/// What messages are made of: costs of pairs as doubles, with either end's choices as rows, and
/// where each edge's messages begin.
struct PairCosts {
  explicit PairCosts(const Problem &problem);

  /// Forbidden pairs are infinite, and so is what fills rows up.
  struct Transposed {
    PaddedMatrix rows, columns;
  };
  std::vector<Transposed> matrices;
  /// By edge: where the messages of its first end and of its second begin.
  std::vector<std::pair<size_t, size_t>> messageOffsets;
  size_t messageCount = 0;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_PAIRCOSTS_H
