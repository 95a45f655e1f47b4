// Points in time, and usage by range, beside the plain sums.

#include "lib/solve/MemoryProfile.h"
#include "lib/solve/Reduction.h"
#include "test/unit/lib/solve/RandomProblems.h"

#include <gtest/gtest.h>

using namespace cleave::solve;

TEST(Memory, PointsHaveTheProblemsPeak) {
  std::mt19937_64 random(5);
  for (unsigned i = 0; i < 500; ++i) {
    Problem problem = makeRandomProblem(random, 12);
    LiveRanges live(problem);
    Assignment assignment;
    for (const Node &node : problem.getNodes())
      assignment.push_back(random() % node.size);
    std::vector<int64_t> usage(live.times.size(), 0);
    for (unsigned node = 0; node < assignment.size(); ++node)
      for (unsigned point = live.ranges[node].first; point < live.ranges[node].last; ++point) {
        usage[point] += problem.getUsages(node)[assignment[node]];
        EXPECT_LE(problem.getNodes()[node].start, live.times[point]);
        EXPECT_LT(live.times[point], problem.getNodes()[node].end);
      }
    int64_t peak = 0;
    for (int64_t value : usage)
      peak = std::max(peak, value);
    ASSERT_EQ(peak, static_cast<int64_t>(problem.getPeak(assignment))) << "problem " << i;
  }
}

TEST(Memory, ProfileEqualsPlainSums) {
  std::mt19937_64 random(6);
  for (unsigned points : {1u, 63u, 64u, 65u, 500u}) {
    MemoryProfile profile(points);
    std::vector<double> plain(points, 0);
    for (unsigned i = 0; i < 2000; ++i) {
      unsigned first = random() % points, last = first + 1 + random() % (points - first);
      double amount = static_cast<double>(random() % 200) - 100;
      profile.add({first, last}, amount);
      for (unsigned point = first; point < last; ++point)
        plain[point] += amount;
      first = random() % points;
      last = first + 1 + random() % (points - first);
      ASSERT_EQ(profile.getHighest({first, last}),
                *std::max_element(plain.begin() + first, plain.begin() + last));
    }
  }
}

TEST(Memory, ReductionKeepsAllSolutions) {
  std::mt19937_64 random(8);
  unsigned removed = 0;
  for (unsigned i = 0; i < 1000; ++i) {
    Problem problem = makeRandomProblem(random, 5);
    problem.mergeEdges();
    Reduction reduction(problem);
    std::optional<Cost> optimum = findOptimum(problem);
    removed += !reduction.removed.empty();
    if (reduction.isInfeasible) {
      ASSERT_FALSE(optimum) << "problem " << i;
      continue;
    }
    std::optional<Cost> reduced = findOptimum(reduction.problem);
    ASSERT_EQ(bool(optimum), bool(reduced)) << "problem " << i;
    if (optimum) {
      ASSERT_EQ(toString(*optimum), toString(*reduced)) << "problem " << i;
    }
  }
  EXPECT_GT(removed, 300u);
}
