// Minima and the choices that have them are those of going through all choices, whatever is held.

#include "lib/solve/Elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

using namespace cleave::solve;

namespace {
struct Pair {
  unsigned first, second;
  /// Rows are the second's choices.
  std::vector<double> costs;
};
} // namespace

TEST(Elimination, EqualsBruteForce) {
  std::mt19937_64 random(3);
  auto below = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  unsigned held = 0;
  for (unsigned round = 0; round < 300; ++round) {
    unsigned count = 1 + below(8);
    std::vector<unsigned> sizes(count);
    for (unsigned &size : sizes)
      size = 1 + below(11) / (count > 5 ? 4 : 1);
    std::vector<std::pair<unsigned, unsigned>> edges;
    for (unsigned first = 0; first < count; ++first)
      for (unsigned second = first + 1; second < count; ++second)
        if (below(3) > 0)
          edges.emplace_back(first, second);
    std::vector<unsigned> order =
        EliminationOrder(sizes, edges)
            .find(round % 2 ? 1e9 : 100,
                  [&](llvm::ArrayRef<unsigned> left, llvm::ArrayRef<double> entries) {
                    EXPECT_EQ(entries.size(), count);
                    return below(left.size());
                  });
    held += count - order.size();
    ASSERT_TRUE(round % 2 == 0 || order.size() == count);

    Elimination elimination;
    std::vector<unsigned> position(count, ~0u);
    std::vector<std::vector<double>> own;
    for (unsigned variable : order) {
      position[variable] = own.size();
      std::vector<double> &costs = own.emplace_back(sizes[variable]);
      for (double &cost : costs)
        cost = below(9) ? below(100) : std::numeric_limits<double>::infinity();
      elimination.addVariable(costs);
    }
    std::vector<Pair> pairs;
    for (auto [first, second] : edges)
      if (position[first] != ~0u && position[second] != ~0u) {
        auto [low, high] = std::minmax(position[first], position[second]);
        Pair &pair = pairs.emplace_back(Pair{low, high, {}});
        for (size_t i = 0; i < own[low].size() * own[high].size(); ++i)
          pair.costs.push_back(below(100));
      }
    for (const Pair &pair : pairs)
      elimination.addPair(pair.first, pair.second, pair.costs.data());
    elimination.run();
    auto costOf = [&](const std::vector<unsigned> &choices) {
      double sum = 0;
      for (size_t i = 0; i < own.size(); ++i)
        sum += own[i][choices[i]];
      for (const Pair &pair : pairs)
        sum += pair.costs[choices[pair.second] * own[pair.first].size() + choices[pair.first]];
      return sum;
    };
    std::vector<unsigned> found(own.size()), choices(own.size());
    llvm::SmallVector<double> costs;
    for (size_t variable = own.size(); variable-- > 0;) {
      elimination.getCosts(variable, found, costs);
      found[variable] = std::min_element(costs.begin(), costs.end()) - costs.begin();
    }
    double least = std::numeric_limits<double>::infinity();
    while (true) {
      least = std::min(least, costOf(choices));
      size_t next = 0;
      while (next < choices.size() && ++choices[next] == own[next].size())
        choices[next++] = 0;
      if (next == choices.size())
        break;
    }
    ASSERT_EQ(costOf(found), least) << "round " << round;
  }
  EXPECT_GT(held, 20u);
}
