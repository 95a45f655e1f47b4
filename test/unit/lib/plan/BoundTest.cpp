// No schedule simulates below its bound, and no division of a product is faster than its own.
#include "lib/plan/Bound.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/simulate/Metrics.h"
#include "lib/schedule/simulate/Simulator.h"

#include "gtest/gtest.h"

#include <random>

using namespace cleave;
using namespace cleave::plan;

namespace {
double simulateMakespan(const schedule::Schedule &program, const simulate::CostTable &costs) {
  simulate::SimulationOptions options;
  options.model = schedule::CommModel::gloo();
  auto timeline = simulate::simulate(program, costs, options);
  EXPECT_TRUE(bool(timeline));
  return simulate::measure(program, *timeline).makespan;
}

bool splitsBackward(const schedule::Schedule &program) {
  bool found = false;
  for (const auto &list : program.ranks)
    for (schedule::Action action : list)
      program.forEachLeaf(action, [&](schedule::Action leaf) {
        found |= leaf.kind == schedule::ActionKind::BackwardInput;
      });
  return found;
}

TEST(Bound, NoScheduleIsFaster) {
  std::mt19937 random(20261124);
  auto draw = [&](double most) { return most * double(random() % 1000) / 1000; };
  unsigned numTried = 0, numMet = 0;
  double closest = 2;
  for (const schedule::ScheduleBuilder *builder : schedule::ScheduleRegistry::global().all())
    for (unsigned ranks : {2u, 3u, 4u})
      for (unsigned microbatches : {1u, 2u, 4u, 6u, 12u})
        for (bool hasUpdates : {false, true}) {
          schedule::BuildRequest request;
          request.ranks = ranks;
          request.microbatches = microbatches;
          auto program = builder->build(request);
          if (!program) {
            llvm::consumeError(program.takeError());
            continue;
          }
          if (hasUpdates) {
            llvm::cantFail(schedule::addUnshards(*program));
            schedule::addGradientReductions(*program,
                                            std::vector<unsigned>(program->numStages(), 1));
            schedule::addOptimizerSteps(*program);
          }
          bool splits = splitsBackward(*program);
          simulate::CostTable costs;
          costs.stages.assign(program->numStages(), {});
          for (simulate::StageCost &cost : costs.stages) {
            cost.forward = 0.1 + draw(2);
            cost.input = draw(2);
            cost.weight = draw(2);
            cost.sendForward = draw(0.3);
            cost.sendBackward = draw(0.3);
            for (double *once : {&cost.unshard, &cost.reduce, &cost.optimizer})
              *once = hasUpdates ? draw(3) : 0;
          }
          double bound = boundSchedule(costs, program->topology, microbatches, splits, hasUpdates);
          auto lowered = schedule::insertP2P(*program);
          ASSERT_TRUE(bool(lowered));
          double seconds = simulateMakespan(*lowered, costs);
          EXPECT_GE(seconds, bound * (1 - 1e-12))
              << builder->name().str() << ", " << ranks << " ranks, " << microbatches;
          closest = std::min(closest, seconds / bound);
          // In the order of its passes, of which each knows its time.
          auto ordered = boundOrder(costs, *program);
          ASSERT_TRUE(bool(ordered));
          EXPECT_GE(seconds, *ordered * (1 - 1e-12))
              << builder->name().str() << ", " << ranks << " ranks, " << microbatches;
          if (!hasUpdates)
            EXPECT_GE(*ordered, bound * (1 - 1e-12));
          // Shorter passes and transfers make no order longer.
          simulate::CostTable shorter = costs;
          for (simulate::StageCost &cost : shorter.stages)
            for (double *part :
                 {&cost.forward, &cost.input, &cost.weight, &cost.sendForward, &cost.sendBackward})
              *part *= 0.5 + draw(0.5);
          auto less = boundOrder(shorter, *program);
          ASSERT_TRUE(bool(less));
          EXPECT_LE(*less, *ordered * (1 + 1e-12));
          // What comes after the passes, where these take no time.
          for (simulate::StageCost &cost : shorter.stages)
            for (double *part : {&cost.forward, &cost.input, &cost.weight, &cost.sendForward,
                                 &cost.sendBackward, &cost.unshard})
              *part = 0;
          auto after = boundOrder(shorter, *program);
          ASSERT_TRUE(bool(after));
          for (unsigned rank = 0; rank < ranks; ++rank)
            EXPECT_LE(timeAfterPasses(shorter, *program, rank), *after * (1 + 1e-12));
          numMet += !hasUpdates && *ordered > seconds * 0.999;
          // What is known before stages are: their sum.
          double sum = 0;
          for (const simulate::StageCost &cost : costs.stages)
            sum += cost.forward + cost.input + cost.weight;
          bool isPlain = !splits && program->numStages() == ranks;
          EXPECT_GE(seconds, boundPipeline(sum, ranks, microbatches, isPlain) * (1 - 1e-12));
          ++numTried;
        }
  EXPECT_GT(numTried, 200u);
  EXPECT_GT(numMet, 20u) << "no order takes as long as it is simulated";
  EXPECT_LT(closest, 1.02) << "the bound is far from every schedule";
}

TEST(Bound, IsMetByOneForwardOneBackward) {
  schedule::BuildRequest request;
  request.ranks = 4;
  request.microbatches = 8;
  auto program = schedule::buildSchedule("1f1b", request);
  ASSERT_TRUE(bool(program));
  auto costs = simulate::CostTable::uniform(1, 1, 1, 0);
  double bound = boundSchedule(costs, program->topology, 8, false, false);
  EXPECT_DOUBLE_EQ(bound, (8 + 3) * 3);
  EXPECT_DOUBLE_EQ(simulateMakespan(*program, costs), bound);
}

cost::Device makeDevice(double processors) {
  cost::Device device;
  device.processors = processors;
  device.flops16 = 1e14;
  device.flops32 = 1e13;
  device.memoryBandwidth = 1e12;
  device.matrixEfficiency16 = 0.8;
  device.memoryEfficiency = 0.9;
  device.depthOverhead = 100;
  device.kernelSeconds = 1e-6;
  device.attentionEfficiency = 0.5;
  return device;
}

TEST(Bound, NoDivisionOfAProductIsFaster) {
  std::mt19937 random(1);
  for (double processors : {0.0, 108.0}) {
    cost::Device device = makeDevice(processors);
    cost::Cluster cluster;
    cluster.device = device;
    for (unsigned round = 0; round < 200; ++round) {
      cost::OpWork op;
      op.kind = cost::OpWork::Product;
      op.product = {double(1 << random() % 4), double(8 << random() % 9), double(8 << random() % 9),
                    double(8 << random() % 9)};
      double parts = double(1 << random() % 7);
      double least = leastSeconds(device, op, parts);
      // A random division, which may leave some of the ranks with the same part.
      cost::OpWork part = op;
      double *dims[] = {&part.product.batch, &part.product.m, &part.product.n, &part.product.k};
      for (double left = parts; left > 1; left /= 2)
        if (double *dim = dims[random() % 4]; *dim > 1 && random() % 8)
          *dim /= 2;
      double seconds = cost::timeOf(cluster, part, {}) + part.kernels * device.kernelSeconds;
      EXPECT_GE(seconds, least * (1 - 1e-12));
    }
  }
}
} // namespace
