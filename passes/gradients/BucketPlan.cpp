//===- BucketPlan.cpp - which gradients share a bucket ----------------------===//

#include "passes/gradients/BucketPlan.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave::gradients;

std::vector<std::vector<unsigned>>
cleave::gradients::planBuckets(llvm::ArrayRef<BucketCandidate> candidates, BucketSizes sizes) {
  struct Open {
    std::vector<unsigned> members;
    int64_t bytes = 0;
  };
  llvm::DenseMap<unsigned, Open> open;
  std::vector<std::vector<unsigned>> buckets;
  for (auto [index, candidate] : llvm::enumerate(candidates)) {
    Open &current = open[candidate.group];
    // The first bucket is whichever is closed first.
    int64_t limit = buckets.empty() ? sizes.first : sizes.bucket;
    if (!current.members.empty() && current.bytes + candidate.bytes > limit) {
      buckets.push_back(std::move(current.members));
      current = Open();
    }
    current.members.push_back(index);
    current.bytes += candidate.bytes;
  }
  for (auto &[group, current] : open)
    if (!current.members.empty())
      buckets.push_back(std::move(current.members));
  llvm::sort(buckets, [](const auto &a, const auto &b) { return a.back() < b.back(); });
  return buckets;
}
