//===- MinCutTest.cpp - minimum cuts against all cuts ---------------------------===//

#include "lib/solve/MinCut.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace cleave::solve;

namespace {
struct Edge {
  Network::Node from, to;
  int64_t capacity;
};

Network makeNetwork(unsigned nodes, const std::vector<Edge> &edges) {
  Network network;
  for (unsigned i = 0; i < nodes; ++i)
    network.addNode();
  for (const Edge &edge : edges)
    network.addEdge(edge.from, edge.to, edge.capacity);
  return network;
}

/// Of the cut whose sink side is the bits of `side`; none if it holds an unlimited edge.
std::optional<int64_t> capacityOf(const std::vector<Edge> &edges, unsigned side) {
  int64_t sum = 0;
  for (const Edge &edge : edges)
    if (!(side >> edge.from & 1) && (side >> edge.to & 1)) {
      if (edge.capacity == Network::kUnlimited)
        return std::nullopt;
      sum += edge.capacity;
    }
  return sum;
}

TEST(MinCut, TakesTheNarrowPlace) {
  // 0 -5-> 1 -2-> 2 -7-> 3
  auto cut = makeNetwork(4, {{0, 1, 5}, {1, 2, 2}, {2, 3, 7}}).findMinCut(0, 3);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->capacity, 2);
  EXPECT_FALSE(cut->sinkSide.test(1));
  EXPECT_TRUE(cut->sinkSide.test(2));
}

TEST(MinCut, OfEqualCutsTheOneNearTheSink) {
  auto cut = makeNetwork(4, {{0, 1, 3}, {1, 2, 3}, {2, 3, 3}}).findMinCut(0, 3);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->sinkSide.count(), 1u);
}

TEST(MinCut, NoPathIsACutOfNothing) {
  auto cut = makeNetwork(3, {{1, 0, 4}, {1, 2, 4}}).findMinCut(0, 2);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->capacity, 0);
  EXPECT_FALSE(cut->sinkSide.test(0));
}

TEST(MinCut, AnUnlimitedPathHasNone) {
  EXPECT_FALSE(makeNetwork(3, {{0, 1, Network::kUnlimited}, {1, 2, Network::kUnlimited}, {0, 2, 1}})
                   .findMinCut(0, 2));
}

TEST(MinCut, UndoesFlowThatBlocks) {
  // The first shortest path, 0-1-4-5, must give way.
  auto cut =
      makeNetwork(6, {{0, 1, 1}, {1, 4, 1}, {4, 5, 1}, {0, 2, 1}, {2, 4, 1}, {1, 3, 1}, {3, 5, 1}})
          .findMinCut(0, 5);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->capacity, 2);
}

TEST(MinCut, EqualsTheBestOfAllCuts) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    unsigned nodes = 3 + random() % 7, count = nodes + random() % (3 * nodes);
    std::vector<Edge> edges;
    for (unsigned i = 0; i < count; ++i) {
      Network::Node from = random() % nodes, to = random() % nodes;
      if (from != to)
        edges.push_back(
            {from, to, random() % 6 == 0 ? Network::kUnlimited : int64_t(random() % 9)});
    }
    unsigned sink = nodes - 1;
    std::optional<int64_t> best;
    unsigned fewest = nodes;
    for (unsigned side = 0; side < 1u << nodes; ++side) {
      if ((side & 1) || !(side >> sink & 1))
        continue;
      std::optional<int64_t> capacity = capacityOf(edges, side);
      unsigned size = std::popcount(side);
      if (!capacity || (best && (*capacity > *best || (*capacity == *best && size >= fewest))))
        continue;
      best = capacity;
      fewest = size;
    }
    auto cut = makeNetwork(nodes, edges).findMinCut(0, sink);
    ASSERT_EQ(bool(cut), bool(best)) << "seed " << seed;
    if (!cut)
      continue;
    unsigned side = 0;
    for (unsigned node : cut->sinkSide.set_bits())
      side |= 1u << node;
    EXPECT_EQ(cut->capacity, *best) << "seed " << seed;
    EXPECT_EQ(capacityOf(edges, side), best) << "seed " << seed;
    EXPECT_EQ(cut->sinkSide.count(), fewest) << "seed " << seed;
  }
}

TEST(MinCut, ScalesKeepSumsWithinTheLimit) {
  EXPECT_EQ(Network::chooseScale(0, 1 << 20), 1 << 20);
  EXPECT_EQ(Network::chooseScale(1e12, 1 << 20), 1 << 20);
  for (double total : {1e13, 3e15, 1e18}) {
    int64_t scale = Network::chooseScale(total, 1 << 20);
    EXPECT_GE(scale, 1);
    EXPECT_LT(total * double(scale), std::ldexp(1, 61));
    EXPECT_GE(total * double(2 * scale), std::ldexp(1, 61));
  }
}

TEST(MinCut, LongPathsNeedNoStack) {
  Network network;
  constexpr unsigned kLength = 1000000;
  for (unsigned i = 0; i < kLength; ++i)
    network.addNode();
  for (unsigned i = 0; i + 1 < kLength; ++i)
    network.addEdge(i, i + 1, 7 + i % 3);
  auto cut = network.findMinCut(0, kLength - 1);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->capacity, 7);
}
} // namespace
