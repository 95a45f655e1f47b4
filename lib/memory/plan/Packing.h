//===- Packing.h - intervals of time get ranges of memory ----------*- C++ -*-===//
//
// The dynamic storage allocation problem: each buffer is needed for an interval of time; which
// ranges of one arena do they get, so that no two overlap in both and the arena is small? Finding
// the smallest is NP-hard (Garey and Johnson, SR2). What is done here is best fit, in several
// orders, and where that leaves gaps between few intervals, a short search (lib/solve).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_PACKING_H
#define CLEAVE_LIB_MEMORY_PLAN_PACKING_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace cleave::exec {

/// A buffer of `bytes` (more than 0) that is needed from time `begin` to time `end`, both included.
struct Interval {
  unsigned begin = 0, end = 0;
  int64_t bytes = 0;
};

struct Packing {
  /// By interval, in bytes from the beginning of the arena.
  std::vector<int64_t> offsets;
  /// Size of the arena.
  int64_t bytes = 0;
  /// No packing is smaller: the most bytes, rounded up to the alignment, that are needed at the
  /// same time.
  int64_t lowerBound = 0;
};

/// Packs `intervals`, each at a multiple of `alignment`. For n intervals over t points of time,
/// time is in O(n r log t log r), where what is taken while one of them is needed consists of at
/// most r separate ranges of bytes: a few, where the packing is good.
Packing packIntervals(llvm::ArrayRef<Interval> intervals, int64_t alignment);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_PACKING_H
