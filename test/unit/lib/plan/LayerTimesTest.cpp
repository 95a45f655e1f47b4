// No schedule of stages that consist of layers is shorter than what the layers say.
#include "lib/plan/LayerTimes.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/simulate/Metrics.h"
#include "lib/schedule/simulate/Simulator.h"

#include "gtest/gtest.h"

#include <numeric>
#include <random>

using namespace cleave;
using namespace cleave::plan;

namespace {
Space makeSpace(int64_t ranks, int64_t layers, int64_t microbatches) {
  Space space;
  space.ranks = ranks;
  ProgramFacts facts;
  facts.layers = layers;
  facts.microbatches = microbatches;
  space.programs.push_back(facts);
  return space;
}

/// What the passes of a stage take if they take no more than they must: `moved` of what either pass
/// may run is run in the forward, and `rest` of what no chain of gradients needs in the pass of the
/// input's gradient.
simulate::StageCost makeStage(const LayerTimes &times, int64_t begin, int64_t end, bool splits,
                              double moved, double rest) {
  PassTime forward, backward;
  KernelTime either;
  for (int64_t layer = begin; layer < end; ++layer) {
    forward += times.forward[size_t(layer)];
    backward += times.backward[size_t(layer)];
    either += times.either[size_t(layer)];
  }
  auto add = [&](PassTime &pass, double part) {
    pass.kernels.device += part * either.device;
    pass.kernels.host += part * either.host;
  };
  add(forward, moved);
  add(backward, 1 - moved);
  simulate::StageCost cost;
  cost.forward = 1e3 * forward.seconds();
  if (!splits) {
    cost.backward = 1e3 * backward.seconds();
    return cost;
  }
  // Both halves in the ratio of the chain to all kernels, at the least.
  double chain = std::max(backward.chain, backward.transfers);
  double share = std::min(1.0, rest + (1 - rest) * chain / backward.kernels.device);
  PassTime input = backward, weight = backward;
  input.kernels = {share * backward.kernels.device, share * backward.kernels.host};
  weight.kernels = {(1 - share) * backward.kernels.device, (1 - share) * backward.kernels.host};
  weight.chain = weight.transfers = 0;
  cost.input = 1e3 * input.seconds();
  cost.weight = 1e3 * weight.seconds();
  return cost;
}

TEST(LayerTimes, NoScheduleIsFaster) {
  std::mt19937 random(20261127);
  auto draw = [&](double most) { return most * double(random() % 1000) / 1000; };
  cost::Cluster cluster;
  cluster.device.stepSeconds = 0.25;
  constexpr int64_t layers = 17;
  unsigned numTried = 0, numTight = 0;
  double closest = 2;
  for (unsigned round = 0; round < 40; ++round) {
    LayerTimes times;
    for (int64_t layer = 0; layer < layers; ++layer) {
      auto pass = [&] {
        PassTime time{{0.1 + draw(1), draw(0.5)}, 0, 0};
        if (round % 4) {
          time.chain = draw(1.3);
          time.transfers = draw(1.3);
        }
        return time;
      };
      times.forward.push_back(pass());
      times.backward.push_back(pass());
      times.either.push_back(round % 3 ? KernelTime{draw(0.5), draw(0.2)} : KernelTime());
      for (LayerTimes::Recomputed &recomputed : times.recomputed)
        recomputed.savedBytes.push_back(1 + draw(9));
    }
    for (int64_t ranks : {1, 2, 4}) {
      Space space = makeSpace(ranks, layers, 8);
      Layout layout;
      layout.pipeline = ranks;
      for (const Shape &shape : space.listShapes(layout)) {
        double bound = boundShape(space, cluster, shape, times);
        std::vector<int64_t> ends = space.listCuts(shape);
        ends.push_back(layers);
        double moved = double(random() % 3) / 2, rest = double(random() % 3) / 2;
        simulate::CostTable costs;
        costs.stages.clear();
        int64_t begin = 0;
        for (int64_t end : ends) {
          costs.stages.push_back(makeStage(times, begin, end, shape.splitsBackward, moved, rest));
          const auto &saved = times.recomputed[size_t(shape.recompute)].savedBytes;
          double bytes = std::accumulate(saved.begin() + begin, saved.begin() + end, 0.0);
          simulate::StageCost &cost = costs.stages.back();
          cost.forwardMemory = bytes;
          // Half is kept for the gradients of weights.
          cost.weightMemory = shape.splitsBackward ? bytes / 2 : 0;
          cost.inputMemory = bytes - cost.weightMemory;
          begin = end;
        }
        for (const std::string &name : space.listSchedules(shape)) {
          auto order = orderPasses({shape, name}, space, unsigned(ends.size()));
          ASSERT_TRUE(bool(order));
          auto lowered = ranks > 1 ? schedule::insertP2P(*order) : std::move(order);
          ASSERT_TRUE(bool(lowered));
          simulate::SimulationOptions options;
          options.model = schedule::CommModel::gloo();
          auto timeline = simulate::simulate(*lowered, costs, options);
          ASSERT_TRUE(bool(timeline));
          double seconds = 0.25 + 1e-3 * simulate::measure(*lowered, *timeline).makespan;
          EXPECT_GE(seconds, bound) << name << ", " << ranks << " ranks, " << ends.size();
          closest = std::min(closest, seconds / bound);
          // With no more memory than the order takes.
          double most = 0;
          for (unsigned rank = 0; rank < lowered->numRanks(); ++rank) {
            double peak = 0;
            simulate::memoryCurve(*lowered, costs, rank, &peak);
            most = std::max(most, peak);
          }
          double tight = boundShape(space, cluster, shape, times, most * double(ranks));
          EXPECT_GE(seconds, tight) << name << ", " << ranks << " ranks, " << ends.size();
          EXPECT_GE(tight, bound);
          numTight += boundShape(space, cluster, shape, times, most * double(ranks) / 3) > bound;
          ++numTried;
        }
      }
    }
  }
  EXPECT_GT(numTried, 1000u);
  EXPECT_LT(closest, 1 + 1e-6) << "the bound is met by none";
  EXPECT_GT(numTight, 20u) << "memory says nothing";
}

TEST(LayerTimes, RecomputationAndWaitsCount) {
  Space space = makeSpace(1, 4, 2);
  Shape shape;
  cost::Cluster cluster;
  LayerTimes times;
  times.forward.assign(4, {{1, 0}, 0, 0});
  times.backward.assign(4, {{2, 0}, 0, 0});
  times.either.assign(4, {});
  auto bound = [&] { return boundShape(space, cluster, shape, times) / (1 - rounding); };
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 3);
  times.either.assign(4, {0.5, 0});
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 3.5);
  // Communications beside kernels count where they take longer, each function by itself.
  for (PassTime &pass : times.forward)
    pass.transfers = 1.25;
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 3.5);
  for (PassTime &pass : times.forward)
    pass.transfers = 3;
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 5);
  times.recomputed[size_t(Recompute::Full)].backward.assign(4, {2.75, 0});
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 5);
  shape.recompute = Recompute::Full;
  EXPECT_DOUBLE_EQ(bound(), 2 * 4 * 5.75);
  // The whole microbatch keeps its bytes for as long as the backward takes, of each of two.
  times.recomputed[size_t(Recompute::Full)].savedBytes.assign(4, 10);
  auto within = [&](double room) {
    return boundShape(space, cluster, shape, times, room) / (1 - rounding);
  };
  EXPECT_DOUBLE_EQ(within(40), 2 * 4 * 5.75);
  EXPECT_DOUBLE_EQ(within(10), 2 * 40 * 4 * 2.75 / 10);
  EXPECT_TRUE(std::isinf(within(0)));
  EXPECT_TRUE(std::isinf(within(-1)));
  // Of a program that cannot be cut nothing is known by layer.
  EXPECT_EQ(boundShape(space, cluster, shape, LayerTimes()), 0);
}
} // namespace
