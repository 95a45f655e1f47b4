//===- Dominance.h - choices that another one always replaces -*- C++ -*-===//
//
// A choice goes if another one of its node uses no more memory at any time and costs no more,
// whatever the neighbours choose: some best solution does without it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_DOMINANCE_H
#define CLEAVE_LIB_SOLVE_DOMINANCE_H

#include "lib/solve/Problem.h"

namespace cleave::solve {

/// By node: what its choices use of memory, in each of the parts that use any.
using PartUsages = std::vector<std::vector<std::vector<int64_t>>>;

struct Dominance {
  /// The problem's own usages do not count. Gives up looking after a number of comparisons, by
  /// problem.
  Dominance(const Problem &problem, const PartUsages &usages);

  struct Removal {
    unsigned node, choice, instead;
  };
  /// Each with a choice that is left when it goes, and may go later.
  std::vector<Removal> removed;

  /// The choice that is left of those that stand for this one.
  unsigned replace(unsigned node, unsigned choice) const;

private:
  std::vector<std::vector<unsigned>> replacements;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_DOMINANCE_H
