// Stages of any length follow from those that were measured, and never take less than these say.
#include "lib/plan/Samples.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace cleave;
using namespace cleave::plan;

namespace {
StageSample makeStage(double forward, double saved) {
  StageSample stage;
  stage.forward = {forward, forward / 4};
  stage.savedBytes = saved;
  stage.forwardBytes = 8;
  return stage;
}

/// Twelve layers: what the first takes besides is 5, the last 7, each equal one 3, a stage once 1.
StageSamples makeSamples() {
  StageSamples samples(12, /*isSharded=*/false);
  samples.add(true, 0, false, makeStage(6, 50));
  samples.add(true, 1, false, makeStage(9, 60));
  samples.add(true, 2, false, makeStage(12, 70));
  for (int64_t count : {1, 2, 3})
    samples.add(false, count, false, makeStage(1 + 3 * double(count), 10 * double(count)));
  samples.add(false, 0, true, makeStage(8, 70));
  samples.add(false, 1, true, makeStage(11, 80));
  samples.add(false, 2, true, makeStage(14, 90));
  return samples;
}

TEST(Samples, LongerStagesTakeWhatEachLayerAdds) {
  StageSamples samples = makeSamples();
  for (int64_t end = 1; end < 12; ++end) {
    auto first = samples.get(0, end), last = samples.get(12 - end, 12);
    ASSERT_TRUE(first && last);
    EXPECT_DOUBLE_EQ(first->forward.device, 1 + 5 + 3 * double(end - 1));
    EXPECT_DOUBLE_EQ(last->forward.device, 1 + 7 + 3 * double(end - 1));
    EXPECT_DOUBLE_EQ(first->savedBytes, 50 + 10 * double(end - 1));
    // What crosses to the next stage is as much whatever its length.
    EXPECT_EQ(first->forwardBytes, 8);
  }
  for (int64_t begin = 1; begin < 11; ++begin)
    for (int64_t end = begin + 1; end < 12; ++end)
      EXPECT_DOUBLE_EQ(samples.get(begin, end)->forward.device, 1 + 3 * double(end - begin));
  // Nothing is known of all layers in one stage.
  EXPECT_FALSE(samples.get(0, 12));
}

TEST(Samples, WhatTheLastLayerAddsCounts) {
  StageSamples samples = makeSamples();
  samples.add(false, 3, false, makeStage(9, 28)); // a third layer adds 2 and 8 bytes
  EXPECT_DOUBLE_EQ(samples.get(1, 7)->forward.device, 9 + 3 * 2);
  EXPECT_DOUBLE_EQ(samples.get(0, 7)->forward.device, 12 + 4 * 3);
  // What was carried out counts as it is.
  EXPECT_DOUBLE_EQ(samples.get(0, 3)->forward.device, 12);
  // Of one stage with all layers nothing says what one adds: the least of all others.
  samples.add(true, 3, true, makeStage(22, 150));
  EXPECT_DOUBLE_EQ(samples.get(0, 12)->forward.device, 22 + 7 * 2);
  EXPECT_DOUBLE_EQ(samples.get(0, 12)->savedBytes, 150 + 7 * 8);
  // One more layer takes nothing away.
  samples.add(false, 3, false, makeStage(5, 10));
  EXPECT_DOUBLE_EQ(samples.get(1, 7)->forward.device, 5);
}

TEST(Samples, TooFewSayNothing) {
  StageSamples samples(12, /*isSharded=*/false);
  EXPECT_FALSE(samples.get(1, 2));
  samples.add(false, 1, false, makeStage(4, 10));
  EXPECT_TRUE(samples.get(4, 5));
  EXPECT_FALSE(samples.get(4, 6));
  EXPECT_FALSE(samples.get(0, 2));
}

/// Two ranks of a pipeline, whose stages others divide by 4 along the batch.
TEST(Samples, MemoryFollowsFromWhatIsSharded) {
  Space space;
  space.ranks = 8;
  ProgramFacts facts;
  facts.layers = 12;
  facts.microbatches = 2;
  facts.batch = 4;
  space.programs.push_back(facts);
  auto bound = [&](Sharding sharding, bool areShards, int64_t chunks = 1) {
    StageSamples samples(12, areShards);
    for (bool isFirst : {false, true})
      for (bool isLast : {false, true})
        for (int64_t count : {5, 11}) {
          StageSample stage = makeStage(1, 0);
          stage.parameterBytes = 400, stage.gradientBytes = 40, stage.stateBytes = 4;
          stage.microbatchBytes = 0.5;
          samples.add(isFirst, count, isLast, stage);
        }
    Layout layout;
    layout.data = 4;
    layout.pipeline = 2;
    layout.sharding = sharding;
    Shape shape{layout};
    shape.chunks = chunks;
    shape.splitsBackward = chunks > 1;
    return boundSchedules(space, cost::Cluster(), shape, samples);
  };
  // Of parameters and states that are in shards already nothing is divided again.
  for (auto [sharding, areShards, bytes] : {std::tuple(Sharding::Replicated, false, 444.5),
                                            {Sharding::Zero1, false, 441.5},
                                            {Sharding::FsdpOnce, false, 141.5},
                                            {Sharding::Fsdp, false, 111.5},
                                            {Sharding::FsdpOnce, true, 444.5},
                                            {Sharding::Fsdp, true, 414.5}})
    for (const PlanBound &each : bound(sharding, areShards))
      EXPECT_NEAR(each.memory, bytes, 1e-3);
  // Stages of three layers do not follow from these.
  EXPECT_TRUE(bound(Sharding::Replicated, false, 2).empty());
}

TEST(Samples, ScheduleThatCannotBeBuiltHasNoTime) {
  Space space;
  space.ranks = 4;
  ProgramFacts facts;
  facts.layers = 12;
  facts.microbatches = 4; // dualpipev needs one a stage
  space.programs.push_back(facts);
  Shape shape;
  shape.layout.pipeline = 4;
  shape.chunks = 2;
  shape.splitsBackward = true;
  std::vector<std::string> names = space.listSchedules(shape);
  std::vector<PlanBound> bounds = boundSchedules(space, cost::Cluster(), shape, makeSamples());
  ASSERT_EQ(bounds.size(), names.size());
  for (auto [name, bound] : llvm::zip(names, bounds)) {
    bool isBuilt = bool(llvm::expectedToOptional(orderPasses({shape, name}, space, 8)));
    EXPECT_EQ(std::isinf(bound.seconds), !isBuilt) << name;
    EXPECT_EQ(std::isinf(bound.memory), !isBuilt) << name;
    EXPECT_EQ(isBuilt, name != "dualpipev") << name;
  }
}
} // namespace
