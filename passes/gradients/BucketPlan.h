//===- BucketPlan.h - which gradients share a bucket --------------*- C++ -*-===//
//
// Grouping and filling of gradient buckets, apart from any IR.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PASSES_GRADIENTS_BUCKETPLAN_H
#define CLEAVE_PASSES_GRADIENTS_BUCKETPLAN_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace cleave::gradients {

/// A gradient as the plan sees it. Gradients come in the order in which they are ready.
struct BucketCandidate {
  /// Gradients of different groups never share a bucket.
  unsigned group = 0;
  /// The bounds of its part of the buffer.
  int64_t bytes = 0;
};

struct BucketSizes {
  /// Most bytes of a bucket; a gradient that is larger has a bucket to itself.
  int64_t bucket = 0;
  /// The same for the bucket that is ready first, whatever its group: a small one starts the
  /// communication early.
  int64_t first = 0;
};

/// Fills buckets in order of readiness and returns them, as indices into `candidates`, in the order
/// in which they are complete. Linear in the number of gradients, but for the final sort.
std::vector<std::vector<unsigned>> planBuckets(llvm::ArrayRef<BucketCandidate> candidates,
                                               BucketSizes sizes);

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_BUCKETPLAN_H
