//===- BucketPlanTest.cpp - how gradients are divided into buckets ----------===//

#include "passes/gradients/BucketPlan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace cleave::gradients;
using Plan = std::vector<std::vector<unsigned>>;

TEST(BucketPlan, FillsInOrderOfReadiness) {
  EXPECT_EQ(planBuckets({{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {8, 8}), (Plan{{0, 1}, {2, 3}}));
}

TEST(BucketPlan, FirstBucketIsSmall) {
  EXPECT_EQ(planBuckets({{0, 4}, {0, 4}, {0, 4}, {0, 4}}, {100, 4}), (Plan{{0}, {1, 2, 3}}));
}

TEST(BucketPlan, LargeGradientIsAlone) {
  EXPECT_EQ(planBuckets({{0, 2}, {0, 50}, {0, 2}, {0, 2}}, {8, 8}), (Plan{{0}, {1}, {2, 3}}));
}

TEST(BucketPlan, GroupsAreApart) {
  EXPECT_EQ(planBuckets({{0, 4}, {1, 4}, {0, 4}, {1, 4}}, {100, 100}), (Plan{{0, 2}, {1, 3}}));
}

TEST(BucketPlan, NothingToPlan) {
  EXPECT_TRUE(planBuckets({}, {8, 8}).empty());
}

/// Whatever comes in: each gradient is in one bucket, buckets are of one group, ascending, complete
/// in order, within their limit, and none could have taken its successor's first member.
TEST(BucketPlan, Random) {
  unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<BucketCandidate> candidates(random() % 40);
    for (BucketCandidate &candidate : candidates)
      candidate = {unsigned(random() % 3), int64_t(1 + random() % 50)};
    BucketSizes sizes{int64_t(1 + random() % 100), 0};
    sizes.first = 1 + random() % sizes.bucket;
    Plan plan = planBuckets(candidates, sizes);
    std::vector<int> seen(candidates.size());
    unsigned last = 0;
    std::map<unsigned, int64_t> lastBytes;
    for (const auto &bucket : plan) {
      ASSERT_FALSE(bucket.empty());
      ASSERT_TRUE(&bucket == &plan.front() || bucket.back() > last);
      last = bucket.back();
      int64_t bytes = 0;
      unsigned group = candidates[bucket.front()].group;
      for (size_t i = 0; i < bucket.size(); ++i) {
        ASSERT_TRUE(i == 0 || bucket[i - 1] < bucket[i]);
        ASSERT_EQ(candidates[bucket[i]].group, group);
        bytes += candidates[bucket[i]].bytes;
        ++seen[bucket[i]];
      }
      ASSERT_TRUE(bucket.size() == 1 || bytes <= sizes.bucket);
      if (auto before = lastBytes.find(group); before != lastBytes.end()) {
        ASSERT_GT(before->second + candidates[bucket.front()].bytes, sizes.first);
      }
      lastBytes[group] = bytes;
    }
    for (int count : seen)
      ASSERT_EQ(count, 1);
  }
}
