// Stages in which communications take turns: what longer ones take at the least.
#include "lib/plan/Samples.h"

#include "gtest/gtest.h"

#include <random>

using namespace cleave;
using namespace cleave::plan;
using simulate::FunctionWork;
using simulate::OpWork;

namespace {
/// One byte a second between devices, one operation a second on them; nothing takes time besides.
cost::Cluster makeCluster(double slowdown) {
  cost::Cluster cluster;
  cluster.device.processors = 0;
  cluster.device.memoryBandwidth = 1e30;
  cluster.device.overlapSlowdown = slowdown;
  cost::Link link;
  link.bandwidth = 1;
  cluster.levels = {{link, 0}};
  return cluster;
}

OpWork makeKernel(double seconds) {
  OpWork op;
  op.kind = OpWork::Product;
  op.product = {1, 1, 1, seconds / 2, cost::Width::Bits16};
  return op;
}

OpWork makeTransfer(double seconds, int number) {
  OpWork op;
  op.kind = OpWork::Communication;
  op.collective = cost::Collective::AllGather;
  op.bytes = 2 * seconds;
  op.starts = number;
  return op;
}

OpWork makeWait(int number) {
  OpWork op;
  op.awaits = number;
  op.kernels = 0;
  return op;
}

/// Layers of ring attention, of which each gathers the parameters of the next one.
struct Pattern {
  double gather = 0;
  std::vector<double> kernels, exchanges;
  /// Before which kernel the gather begins, and before which the last one is waited for.
  size_t begins = 0, needed = 0;

  explicit Pattern(std::mt19937 &random) {
    auto pick = [&](unsigned most) { return random() % (most + 1); };
    gather = double(pick(8));
    for (size_t round = 0; round < 3; ++round) {
      kernels.push_back(double(1 + pick(5)));
      exchanges.push_back(double(pick(5)));
    }
    begins = pick(2), needed = pick(2);
  }

  FunctionWork makeStage(int layers) const {
    FunctionWork ops = {makeTransfer(gather, 0)};
    int number = 1;
    for (int layer = 0, gathered = 0; layer < layers; ++layer) {
      int last = gathered;
      for (size_t round = 0; round < kernels.size(); ++round) {
        if (round == begins && layer + 1 < layers)
          ops.push_back(makeTransfer(gather, gathered = number++));
        int exchange = number++;
        ops.push_back(makeTransfer(exchanges[round], exchange));
        if (round == needed)
          ops.push_back(makeWait(last));
        ops.push_back(makeKernel(kernels[round]));
        ops.push_back(makeWait(exchange));
      }
    }
    return ops;
  }
};

std::vector<unsigned> listKinds() {
  std::vector<unsigned> kinds(12, 1);
  kinds.front() = 0;
  kinds.back() = 2;
  return kinds;
}

/// No stage takes less than kernels and communications add up to. What two layers take more than
/// one is not what each further one adds: some stages take less than that.
TEST(Streams, LongerStagesTakeNoLessThanTheirSums) {
  std::mt19937 random(20261128);
  unsigned numTight = 0, numBelowStages = 0;
  for (unsigned run = 0; run < 2000; ++run) {
    cost::Cluster cluster = makeCluster(run % 2 ? 0.3 : 0);
    Pattern pattern(random);
    simulate::ProgramWork work;
    work.groups = {{"dp, cp", {2, 1}}};
    constexpr int most = 8;
    for (int layers = 1; layers <= most; ++layers)
      work.stages.emplace_back().forward = pattern.makeStage(layers);
    std::vector<StageSample> whole = describeStages(cluster, work);
    StageSamples stages(listKinds(), Sharding::Fsdp), streams = stages;
    auto sums = describeStreams(cluster, work);
    for (int layers : {1, 2}) {
      stages.add(std::vector<unsigned>(layers, 1), whole[layers - 1]);
      streams.add(std::vector<unsigned>(layers, 1), sums[layers - 1]);
      EXPECT_EQ(sums[layers - 1].microbatchBytes, 0);
    }
    for (int layers = 1; layers <= most; ++layers) {
      double found = whole[layers - 1].forward.seconds();
      double least = streams.get(1, 1 + layers)->forward.seconds();
      EXPECT_LE(least, found * (1 + rounding));
      numTight += least > found * (1 - rounding);
      numBelowStages += stages.get(1, 1 + layers)->forward.seconds() > found * (1 + rounding);
    }
  }
  EXPECT_GT(numTight, 1000u);
  EXPECT_GT(numBelowStages, 0u);
}
} // namespace
