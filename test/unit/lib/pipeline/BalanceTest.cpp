//===- BalanceTest.cpp - the contiguous partition against all there are -------===//

#include "lib/pipeline/Balance.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <random>

using namespace cleave::pipeline;

namespace {
struct Cut {
  double bottleneck, boundary;
};

Cut evaluate(const std::vector<double> &costs, const std::vector<double> &boundary,
             std::vector<size_t> begins) {
  Cut cut{0, 0};
  for (size_t begin : begins)
    cut.boundary += boundary[begin];
  begins.insert(begins.begin(), 0);
  begins.push_back(costs.size());
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    EXPECT_LT(begins[i], begins[i + 1]) << "a part is empty";
    double sum = 0;
    for (size_t j = begins[i]; j < begins[i + 1]; ++j)
      sum += costs[j];
    cut.bottleneck = std::max(cut.bottleneck, sum);
  }
  return cut;
}

/// All ways to choose where `parts` - 1 parts begin among 1 to n - 1.
void forEachCut(size_t n, size_t parts, const std::function<void(std::vector<size_t>)> &visit) {
  std::vector<bool> chosen(n - 1);
  std::fill(chosen.begin(), chosen.begin() + (parts - 1), true);
  do {
    std::vector<size_t> begins;
    for (size_t i = 0; i < n - 1; ++i)
      if (chosen[i])
        begins.push_back(i + 1);
    visit(begins);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
}
} // namespace

TEST(Balance, FindsTheBestOfAllCuts) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    size_t n = 1 + random() % 9, parts = 1 + random() % n;
    double slack = round % 3 * 0.2;
    std::vector<double> costs(n), boundary(n);
    for (size_t i = 0; i < n; ++i) {
      costs[i] = random() % 10;
      boundary[i] = random() % 100;
    }
    double bottleneck = 1e300, cheapest = 1e300;
    forEachCut(n, parts, [&](std::vector<size_t> begins) {
      bottleneck = std::min(bottleneck, evaluate(costs, boundary, begins).bottleneck);
    });
    EXPECT_NEAR(findBottleneck(costs, parts), bottleneck, 1e-6 * (1 + bottleneck));
    forEachCut(n, parts, [&](std::vector<size_t> begins) {
      Cut cut = evaluate(costs, boundary, begins);
      if (cut.bottleneck <= bottleneck * (1 + slack) + 1e-9)
        cheapest = std::min(cheapest, cut.boundary);
    });
    std::vector<size_t> begins = balance(costs, boundary, parts, slack);
    ASSERT_EQ(begins.size(), parts - 1);
    Cut cut = evaluate(costs, boundary, begins);
    EXPECT_LE(cut.bottleneck, bottleneck * (1 + slack) + 1e-6 * (1 + bottleneck));
    EXPECT_EQ(cut.boundary, cheapest) << "n " << n << " parts " << parts << " slack " << slack;
  }
}

TEST(Balance, IsFastOnLongChains) {
  std::mt19937 random(3);
  std::vector<double> costs(200000), boundary(200000);
  for (size_t i = 0; i < costs.size(); ++i) {
    costs[i] = random() % 1000;
    boundary[i] = random() % 1000;
  }
  auto start = std::chrono::steady_clock::now();
  std::vector<size_t> begins = balance(costs, boundary, 64, 0.02);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(begins.size(), 63u);
  // Quadratic growth would take minutes.
  EXPECT_LT(seconds.count(), 20);
}
