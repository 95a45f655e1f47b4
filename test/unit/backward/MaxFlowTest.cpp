//===- MaxFlowTest.cpp - maximum flow against all cuts -----------------------===//

#include "lib/backward/MaxFlow.h"

#include "gtest/gtest.h"

#include <random>

using cleave::backward::MaxFlow;

namespace {
struct Edge {
  unsigned from, to;
  int64_t capacity;
};

int64_t capacityOf(const std::vector<Edge> &edges, unsigned sourceSide) {
  int64_t capacity = 0;
  for (const Edge &edge : edges)
    if ((sourceSide >> edge.from & 1) && !(sourceSide >> edge.to & 1))
      capacity += edge.capacity;
  return capacity;
}

TEST(MaxFlow, EqualsTheSmallestCut) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    unsigned count = 2 + random() % 8;
    MaxFlow flow;
    for (unsigned i = 0; i < count; ++i)
      flow.addNode();
    std::vector<Edge> edges;
    for (unsigned i = 0, e = random() % (3 * count); i < e; ++i) {
      Edge edge{unsigned(random() % count), unsigned(random() % count), int64_t(random() % 10)};
      if (edge.from == edge.to)
        continue;
      edges.push_back(edge);
      flow.addEdge(edge.from, edge.to, edge.capacity);
    }
    // Node 0 is the source, node 1 the sink.
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (unsigned side = 0; side < 1u << count; ++side)
      if ((side & 3) == 1)
        smallest = std::min(smallest, capacityOf(edges, side));
    EXPECT_EQ(flow.solve(0, 1), smallest) << "seed " << seed;
    unsigned side = 0;
    for (unsigned i = 0; i < count; ++i)
      side |= unsigned(flow.isOnSourceSide(i)) << i;
    EXPECT_EQ(side & 3, 1u) << "seed " << seed;
    EXPECT_EQ(capacityOf(edges, side), smallest) << "seed " << seed;
  }
}

TEST(MaxFlow, SaysThatNoFiniteCutSeparates) {
  MaxFlow flow;
  for (unsigned i = 0; i < 4; ++i)
    flow.addNode();
  flow.addEdge(0, 2, MaxFlow::kInfinite);
  flow.addEdge(2, 1, MaxFlow::kInfinite);
  flow.addEdge(0, 3, 5);
  flow.addEdge(3, 1, 7);
  EXPECT_GE(flow.solve(0, 1), MaxFlow::kInfinite);
}

TEST(MaxFlow, PicksTheCutNextToTheSource) {
  MaxFlow flow;
  for (unsigned i = 0; i < 3; ++i)
    flow.addNode();
  flow.addEdge(0, 2, 4);
  flow.addEdge(2, 1, 4);
  EXPECT_EQ(flow.solve(0, 1), 4);
  EXPECT_TRUE(flow.isOnSourceSide(0));
  EXPECT_FALSE(flow.isOnSourceSide(2));
}
} // namespace
