//===- LeastMemory.h - what a placement takes at least, and what does --*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_LEASTMEMORY_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_LEASTMEMORY_H

#include "lib/placement/propagate/JointProblem.h"

namespace cleave::placement::propagate {

/// Of every value the least that it can take: no placement takes less, and few programs have one
/// that takes as little.
struct LeastMemory {
  /// What arguments hold all the time, and the most that others hold at once.
  solve::Cost held = 0, peak = 0;
  /// When others hold the most: the number of an op.
  int64_t time = 0;
  solve::Cost whole() const { return held + peak; }
};
LeastMemory sumLeast(const Graph &graph, const solve::Problem &problem);

/// Bytes into which a placement was found to fit, and few fewer do; exact where the problem is
/// small. None where nothing fits into any memory.
std::optional<int64_t> findEnough(solve::Problem problem, const LeastMemory &least,
                                  solve::SolveOptions options);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_LEASTMEMORY_H
