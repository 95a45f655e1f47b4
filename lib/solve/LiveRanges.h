//===- LiveRanges.h - the times at which memory can be tightest -*- C++ -*-===//
//
// At most times, what is live is a part of what is live a little earlier or later. The points kept
// are those where a node begins before the next one ends: no usage of memory exceeds the limit if
// none of them does.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_LIVERANGES_H
#define CLEAVE_LIB_SOLVE_LIVERANGES_H

#include "lib/solve/Problem.h"

namespace cleave::solve {

/// Points first <= point < last.
struct PointRange {
  unsigned first = 0, last = 0;
  bool isEmpty() const { return first == last; }
};

struct LiveRanges {
  explicit LiveRanges(const Problem &problem);

  /// By point, a time of the problem's.
  std::vector<int64_t> times;
  /// By node; empty for those that never use memory.
  std::vector<PointRange> ranges;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_LIVERANGES_H
