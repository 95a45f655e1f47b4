// Matrix products by tiles and waves, and what only moves bytes.

#include "lib/cost/OpWork.h"

#include <gtest/gtest.h>

using namespace cleave::cost;

/// 100 processors of 1e10 operations a second each, and memory so fast that it does not count.
static Device makeDevice() {
  Device device;
  device.processors = 100;
  device.flops16 = 1e12;
  device.flops8 = 2e12;
  device.memoryBandwidth = 1e15;
  return device;
}

TEST(OpTime, FullWavesReachTheRate) {
  Device device = makeDevice();
  device.matrixEfficiency16 = 0.5;
  // 10 x 20 tiles of 256 x 128: two full waves.
  MatrixProduct product{1, 2560, 2560, 4096, Width::Bits16};
  EXPECT_NEAR(timeOf(device, product), product.flops() / 0.5e12, 1e-9);
}

TEST(OpTime, AWaveThatIsNotFullTakesAsLong) {
  Device device = makeDevice();
  device.processors = 1;
  device.flops16 = 1e10;
  // One row more than a tile of 256 has: another tile, though it may be a small one.
  double full = timeOf(device, {1, 256, 128, 64, Width::Bits16});
  double more = timeOf(device, {1, 257, 128, 64, Width::Bits16});
  EXPECT_GT(more, full * 1.2);
  EXPECT_LE(more, full * 2);
  // Within a tile, rows are free.
  EXPECT_DOUBLE_EQ(timeOf(device, {1, 255, 128, 64, Width::Bits16}), full);
}

TEST(OpTime, ATileHasAnOverheadOfDepth) {
  Device device = makeDevice();
  MatrixProduct product{1, 2560, 2560, 256, Width::Bits16};
  double without = timeOf(device, product);
  device.depthOverhead = 256;
  EXPECT_NEAR(timeOf(device, product), 2 * without, 1e-9);
}

TEST(OpTime, ANarrowerTypeIsFasterWhereTheDeviceHasIt) {
  Device device = makeDevice();
  EXPECT_DOUBLE_EQ(reachedFlops(device, Width::Bits8), 2e12);
  // No units of 4 bits: the next wider compute.
  EXPECT_DOUBLE_EQ(reachedFlops(device, Width::Bits4), 2e12);
  device.flops8 = 0;
  EXPECT_DOUBLE_EQ(reachedFlops(device, Width::Bits4), 1e12);
}

TEST(OpTime, AProductIsNeverFasterThanItsBytes) {
  Device device = makeDevice();
  device.memoryBandwidth = 1e9;
  device.memoryEfficiency = 0.5;
  MatrixProduct product{1, 1024, 1024, 16, Width::Bits16};
  EXPECT_DOUBLE_EQ(product.bytes(), 2 * (1024 * 16 + 16 * 1024 + 1024 * 1024));
  EXPECT_DOUBLE_EQ(timeOf(device, product), product.bytes() / 0.5e9);
}

TEST(OpTime, DeepProductsOfFewTilesAreSplit) {
  Device device = makeDevice();
  // One tile, 64 k deep: on eight processors, not on one.
  MatrixProduct product{1, 128, 128, 65536, Width::Bits16};
  EXPECT_LT(timeOf(device, product), product.flops() / 1e10 / 6);
}

TEST(OpTime, AttentionByOperationsAndByTilesIfFew) {
  Device device = makeDevice();
  device.attentionEfficiency = 0.25;
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 1000), 4);
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 50), 8);
}

TEST(OpTime, ShortHeadsLeavePartOfTheRate) {
  EXPECT_DOUBLE_EQ(rateOfHeads(64, /*isBackward=*/false), 2.0 / 3);
  EXPECT_DOUBLE_EQ(rateOfHeads(64, /*isBackward=*/true), 5.0 / 6);
  EXPECT_EQ(rateOfHeads(128, /*isBackward=*/false), 1);
  EXPECT_EQ(rateOfHeads(192, /*isBackward=*/true), 1);
  Device device = makeDevice();
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 1000, Width::Bits16, 0.25), 4);
}

TEST(OpTime, WithoutProcessorsOnlyOperationsAndBytesCount) {
  Device device = makeDevice();
  device.processors = 0;
  EXPECT_DOUBLE_EQ(timeOf(device, {1, 3, 5, 7, Width::Bits16}), 2.0 * 3 * 5 * 7 / 1e12);
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 50), 1);
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 50, Width::Bits16, 0.5), 1);
  device.memoryBandwidth = 1;
  EXPECT_DOUBLE_EQ(timeOf(device, {1, 3, 5, 7, Width::Bits16}), 2 * (3 * 7 + 7 * 5 + 3 * 5));
}

TEST(OpTime, ThirtyTwoBitsHaveARateOfTheirOwn) {
  Device device = makeDevice();
  EXPECT_EQ(reachedFlops(device, Width::Bits32), 0);
  device.flops32 = 0.5e12;
  device.matrixEfficiency16 = 0.5;
  EXPECT_DOUBLE_EQ(reachedFlops(device, Width::Bits32), 0.25e12);
  EXPECT_DOUBLE_EQ((MatrixProduct{1, 3, 5, 7, Width::Bits32}.bytes()), 4 * (3 * 7 + 7 * 5 + 3 * 5));
  EXPECT_DOUBLE_EQ(attentionTime(device, 1e12, 0, Width::Bits32), 2);
}

TEST(OpTime, ANominalDeviceIsARoofline) {
  Device device = makeNominalDevice(10);
  EXPECT_DOUBLE_EQ(timeOfBytes(device, 30), 3);
  MatrixProduct small{1, 2, 2, 2, Width::Bits32}, large{1, 1024, 1024, 1024, Width::Bits16};
  EXPECT_DOUBLE_EQ(timeOf(device, small), small.bytes() / 10);
  EXPECT_DOUBLE_EQ(timeOf(device, large), large.flops() / 320);
}

TEST(OpTime, AttentionIsNeverFasterThanItsBytes) {
  Cluster cluster;
  cluster.device = makeNominalDevice(10);
  OpWork work;
  work.kind = OpWork::Attention;
  work.flops = 640;
  EXPECT_DOUBLE_EQ(timeOf(cluster, work, {}), 2);
  work.bytes = 50;
  EXPECT_DOUBLE_EQ(timeOf(cluster, work, {}), 5);
}

TEST(OpTime, LaunchesBindWhereTheyTakeLonger) {
  EXPECT_EQ(timeOfLaunched(0, 0), 0);
  EXPECT_DOUBLE_EQ(timeOfLaunched(2, 0), 2);
  EXPECT_DOUBLE_EQ(timeOfLaunched(0, 3), 3);
  EXPECT_NEAR(timeOfLaunched(1, 1), 1.19, 0.01);
}

TEST(OpWork, CommunicatesAmongItsGroup) {
  Cluster cluster;
  cluster.device = makeDevice();
  Link link;
  link.bandwidth = 100;
  cluster.levels = {{link, 0}};
  OpWork op;
  op.kind = OpWork::Communication;
  op.bytes = 800;
  EXPECT_EQ(timeOf(cluster, op, {1, 1}), 0);
  EXPECT_DOUBLE_EQ(timeOf(cluster, op, {8, 1}), 14);
  op.collective = Collective::Send;
  EXPECT_DOUBLE_EQ(timeOf(cluster, op, {8, 1}), 8);
  op.collective = Collective::AllToAll;
  EXPECT_DOUBLE_EQ(timeOf(cluster, op, {8, 1}), 7);
  op.copies = 2;
  EXPECT_DOUBLE_EQ(timeOf(cluster, op, {8, 1}), exchangeTime(cluster, {8, 1}, 800, 2));
}

TEST(OpTime, ACopyTakesTheLinkToTheHost) {
  Cluster cluster;
  cluster.device = makeDevice();
  cluster.device.hostBandwidth = 100;
  cluster.device.hostEfficiency = 0.5;
  OpWork copy;
  copy.hostBytes = 200;
  copy.kernels = 0;
  EXPECT_DOUBLE_EQ(timeOf(cluster, copy, {}), 4);
  EXPECT_DOUBLE_EQ(flopsOf(copy), 0);
  // As many times slower than the memory of a nominal device as lib/backward counts.
  Device nominal = makeNominalDevice(1e12);
  EXPECT_DOUBLE_EQ(timeOfHostCopy(nominal, 1e12), nominalHostLinkFactor);
}
