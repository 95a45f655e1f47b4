// Collectives by algorithm, ranks, bytes and levels.

#include "lib/cost/CollectiveTime.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave::cost;

/// Nodes of 8 devices: 100 bytes a second within, 10 between.
static Cluster makeCluster() {
  Cluster cluster;
  Link inner, outer;
  inner.bandwidth = 100;
  outer.bandwidth = 10;
  cluster.levels = {{inner, 8}, {outer, 0}};
  return cluster;
}

TEST(CollectiveTime, OneRankTakesNothing) {
  EXPECT_EQ(timeOf(makeCluster(), Collective::AllReduce, {1, 1}, 800), 0);
}

TEST(CollectiveTime, RingsWithinANode) {
  Cluster cluster = makeCluster();
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {8, 1}, 800), 7);
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::ReduceScatter, {4, 1}, 800), 6);
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllReduce, {8, 1}, 800), 14);
}

TEST(CollectiveTime, RanksOfANodeShareItsWayOut) {
  Cluster cluster = makeCluster();
  // 16 neighbours: 8 ranks of each of two nodes, with 8 links between them.
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {16, 1}, 1600), 1500.0 / 80);
  // Every 8th: one rank of each node.
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {2, 8}, 1600), 800.0 / 10);
}

TEST(CollectiveTime, TreesWhereLatencyCounts) {
  Cluster cluster = makeCluster();
  cluster.levels[1].link.latency = 1;
  // 64 nodes: a ring has 63 steps each way, a tree 6.
  EXPECT_NEAR(timeOf(cluster, Collective::AllReduce, {64, 8}, 0.001), 12, 1e-3);
  EXPECT_NEAR(timeOf(cluster, Collective::AllGather, {64, 8}, 0.001), 63, 1e-3);
}

TEST(CollectiveTime, StepsTakeTheLatencyOfTheLevelThatTheyCross) {
  Cluster cluster = makeCluster();
  cluster.levels[0].link.latency = 1;
  cluster.levels[1].link.latency = 100;
  // 63 steps of a ring through 8 nodes of 8: 7 cross to the next node.
  EXPECT_NEAR(timeOf(cluster, Collective::AllGather, {64, 1}, 0.001), 56 + 7 * 100, 1e-3);
  // A tree: 7 steps of a chain in each node, then 3 between nodes, and back.
  EXPECT_NEAR(timeOf(cluster, Collective::AllReduce, {64, 1}, 0.001), 2 * (7 + 3 * 100), 1e-3);
  EXPECT_NEAR(timeOf(cluster, Collective::AllReduce, {8, 1}, 0.001), 2 * 7, 1e-3);
}

TEST(CollectiveTime, ACollectiveStartsOnce) {
  Cluster cluster = makeCluster();
  cluster.levels[0].link.startSeconds = 3;
  cluster.levels[1].link.startSeconds = 5;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {8, 1}, 800), 3 + 7);
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllReduce, {16, 1}, 1600), 5 + 3000.0 / 80);
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllToAll, {16, 1}, 800), 5 + 40);
  EXPECT_NEAR(exchangeTime(cluster, {8, 1}, 800, 1), 3 + 7, 1e-9);
  EXPECT_DOUBLE_EQ(sendTime(cluster, 8, 100), 10);
}

TEST(CollectiveTime, TheFirstSlotOfAStepIsAMessage) {
  Cluster cluster = makeCluster();
  cluster.levels[0].link.pointToPointEfficiency = 0.25;
  cluster.levels[1].link.pointToPointEfficiency = 0.5;
  double slot = 512 * 1024;
  // 7 steps of a slot and a half each; of less than a slot.
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {8, 1}, 8 * 1.5 * slot),
                   7 * (slot / 25 + 0.5 * slot / 100));
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::ReduceScatter, {8, 1}, 800), 7 * 100 / 25.0);
  // Each of the 8 rings between two nodes has slots of its own.
  cluster.levels[0].link.bandwidth = 1e30;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {16, 1}, 16 * 16 * slot),
                   15 * (8 * slot / 40 + 8 * slot / 80));
  // Messages that are faster than rings speed none up; a tree sends the whole tensor.
  cluster.levels[1].link.efficiency = 0.25;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {2, 8}, 2 * slot), slot / 2.5);
  cluster.levels[1].link.efficiency = 1;
  cluster.levels[1].link.latency = 1e6;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllReduce, {64, 8}, 3 * slot),
                   2 * (slot / 5 + 2 * slot / 10 + 6e6));
  cluster.firstSlots = false;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllReduce, {64, 8}, 3 * slot),
                   2 * (3 * slot / 10 + 6e6));
}

TEST(CollectiveTime, RingsOfEverySecondDeviceCrossTheHost) {
  Cluster cluster = makeCluster();
  cluster.levels[1].link.stridedEfficiency = 0.25;
  // 4 of the 8 devices of each of two nodes; all of them; one of them.
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {8, 2}, 800), 700.0 / (4 * 10 * 0.25));
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {16, 1}, 1600), 1500.0 / 80);
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {2, 8}, 1600), 800.0 / 10);
}

TEST(CollectiveTime, ASharedLinkIsPartedAmongDevicesOfTheRun) {
  Cluster cluster = makeCluster();
  cluster.levels[0].link.shared = 1;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {2, 1}, 100), 50 / 12.5);
  cluster.devices = 2;
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllGather, {2, 1}, 100), 1);
}

TEST(CollectiveTime, AllToAllSendsOnlyWhatLeaves) {
  Cluster cluster = makeCluster();
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllToAll, {8, 1}, 800), 7);
  // Half of it to the other node.
  EXPECT_DOUBLE_EQ(timeOf(cluster, Collective::AllToAll, {16, 1}, 800), 40);
}

TEST(CollectiveTime, SendsByDistance) {
  Cluster cluster = makeCluster();
  EXPECT_DOUBLE_EQ(sendTime(cluster, 1, 100), 1);
  EXPECT_DOUBLE_EQ(sendTime(cluster, 8, 100), 10);
  EXPECT_EQ(sendTime(cluster, 8, 0), 0);
}

TEST(CollectiveTime, ATokenCrossesToANodeOnce) {
  Cluster cluster = makeCluster();
  // Within a node, one copy: to each of 7 others with one chance in 8.
  EXPECT_NEAR(exchangeTime(cluster, {8, 1}, 800, 1), 7, 1e-9);
  // It is passed on within nodes. Two nodes, and so many copies that each node surely wants the
  // token: it leaves once.
  EXPECT_NEAR(exchangeTime(cluster, {16, 1}, 800, 100),
              800.0 * 15 * (1 - std::pow(15.0 / 16, 100)) / 100, 1e-9);
  cluster.levels[0].link.bandwidth = 1e6;
  EXPECT_NEAR(exchangeTime(cluster, {16, 1}, 800, 100), 80, 1e-6);
}
