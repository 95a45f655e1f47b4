// Stages of any length follow from those that were measured, and never take less than these say.
#include "lib/plan/Samples.h"

#include "llvm/ADT/STLExtras.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <map>

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

enum Kind : unsigned { First, Dense, Middle, Last };

std::vector<unsigned> repeat(Kind kind, size_t count) {
  return std::vector<unsigned>(count, kind);
}

/// Twelve layers of which all but the first and the last are equal.
std::vector<unsigned> listKinds() {
  std::vector<unsigned> kinds = repeat(Middle, 12);
  kinds.front() = First;
  kinds.back() = Last;
  return kinds;
}

/// Each stage takes and holds as much, however many layers it has.
void addAlike(StageSamples &samples, const StageSample &stage) {
  for (unsigned kind : {First, Middle, Last}) {
    samples.add({kind}, stage);
    samples.add({kind, Middle}, stage);
    samples.add({kind, Last}, stage);
  }
}

/// 8 ranks and 12 layers.
Space makeSpace(int64_t microbatches) {
  Space space;
  space.ranks = 8;
  ProgramFacts facts;
  facts.layers = 12;
  facts.microbatches = microbatches;
  facts.batch = 4;
  space.programs.push_back(facts);
  return space;
}

/// What the first takes besides is 5, the last 7, each equal one 3, a stage once 1.
StageSamples makeSamples() {
  StageSamples samples(listKinds(), Sharding::Replicated);
  samples.add({First}, makeStage(6, 50));
  samples.add({First, Middle}, makeStage(9, 60));
  samples.add({Middle}, makeStage(4, 10));
  samples.add({Middle, Middle}, makeStage(7, 20));
  samples.add({Last}, makeStage(8, 70));
  samples.add({Middle, Last}, makeStage(11, 80));
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

TEST(Samples, WhatWasCarriedOutCountsAsItIs) {
  StageSamples samples = makeSamples();
  samples.add({Middle, Middle, Middle}, makeStage(9, 28));
  EXPECT_DOUBLE_EQ(samples.get(1, 4)->forward.device, 9);
  // A layer adds to the first stage and to the last what it adds there.
  samples.add({First, Middle}, makeStage(8, 60));
  samples.add({Middle, Last}, makeStage(13, 80));
  EXPECT_DOUBLE_EQ(samples.get(0, 6)->forward.device, 6 + 5 * 2);
  EXPECT_DOUBLE_EQ(samples.get(7, 12)->forward.device, 8 + 4 * 5);
  // All layers in one stage: those that were left out add what one more adds elsewhere.
  samples.add({First, Middle, Middle, Middle, Last}, makeStage(22, 150));
  EXPECT_DOUBLE_EQ(samples.get(0, 12)->forward.device, 22 + 7 * 3);
  EXPECT_DOUBLE_EQ(samples.get(0, 12)->savedBytes, 150 + 7 * 10);
  // One more layer takes nothing away.
  samples.add({Middle, Middle}, makeStage(3, 5));
  EXPECT_DOUBLE_EQ(samples.get(1, 7)->forward.device, 3);
}

/// What a first stage takes at the end of its backward is taken when its layers keep nothing more.
TEST(Samples, BusyEndOfTheFirstStage) {
  auto stage = [](double saved, double busy) {
    StageSample stage = makeStage(1, saved);
    stage.microbatchBytes = busy;
    return stage;
  };
  StageSamples samples(listKinds(), Sharding::Replicated);
  samples.add({First}, stage(50, 400));
  samples.add({First, Middle}, stage(80, 370));
  EXPECT_DOUBLE_EQ(samples.get(0, 2)->microbatchBytes, 370);
  EXPECT_DOUBLE_EQ(samples.get(0, 4)->microbatchBytes, 370 - 2 * 30);
  // Nothing is taken away from what the last layers take, while all is kept.
  samples.add({Middle}, stage(30, 340));
  EXPECT_DOUBLE_EQ(samples.get(0, 4)->microbatchBytes, 340);
  samples.add({Middle, Middle}, stage(60, 350));
  EXPECT_DOUBLE_EQ(samples.get(0, 4)->microbatchBytes, 350);
  EXPECT_DOUBLE_EQ(samples.get(0, 3)->microbatchBytes, 350);
  samples.add({Middle, Middle}, stage(60, 390));
  EXPECT_DOUBLE_EQ(samples.get(0, 4)->microbatchBytes, 370);
}

/// A layer adds what it takes after one of the kind before it.
TEST(Samples, RunsOfSeveralKinds) {
  std::vector<unsigned> kinds = {First, Dense, Dense};
  kinds.insert(kinds.end(), 8, Middle);
  kinds.push_back(Last);
  StageSamples samples(kinds, Sharding::Replicated);
  auto stage = [](double forward, double saved, double busy) {
    StageSample stage = makeStage(forward, saved);
    stage.microbatchBytes = busy;
    return stage;
  };
  samples.add({First}, stage(6, 50, 1));
  samples.add({First, Dense}, stage(8, 60, 1));
  samples.add({First, Dense, Dense}, stage(10, 70, 2));
  samples.add({First, Dense, Dense, Middle}, stage(18, 180, 3));
  samples.add({Dense}, stage(3, 10, 1));
  samples.add({Dense, Dense}, stage(5, 20, 1));
  samples.add({Dense, Middle}, stage(13, 120, 1));
  samples.add({Middle}, stage(10, 100, 1));
  samples.add({Middle, Middle}, stage(19, 200, 1));
  samples.add({Last}, stage(20, 250, 1));
  StageSample last = stage(27, 300, 4);
  last.forwardBytes = 0;
  samples.add({Middle, Last}, last);
  EXPECT_DOUBLE_EQ(samples.get(0, 3)->forward.device, 10);
  EXPECT_DOUBLE_EQ(samples.get(0, 3)->microbatchBytes, 2);
  EXPECT_DOUBLE_EQ(samples.get(0, 6)->forward.device, 18 + 2 * 8);
  EXPECT_DOUBLE_EQ(samples.get(1, 5)->forward.device, 5 + 10 + 9);
  EXPECT_DOUBLE_EQ(samples.get(1, 4)->savedBytes, 20 + 110);
  EXPECT_DOUBLE_EQ(samples.get(4, 12)->forward.device, 20 + 7 * 7);
  EXPECT_EQ(samples.get(4, 12)->forwardBytes, 0);
  EXPECT_EQ(samples.get(2, 11)->forwardBytes, 8);
  // Nothing is said of what is there while a longer stage runs.
  EXPECT_EQ(samples.get(0, 6)->microbatchBytes, 0);
  EXPECT_EQ(samples.get(2, 11)->microbatchBytes, 0);
  // Dense layers before the last one were not carried out.
  EXPECT_FALSE(samples.get(2, 12));
  EXPECT_FALSE(samples.get(0, 12));
  samples.add({First, Dense, Dense, Middle, Middle, Middle, Last}, stage(60, 600, 1));
  EXPECT_DOUBLE_EQ(samples.get(0, 12)->forward.device, 60 + 5 * 9);
}

TEST(Samples, TooFewSayNothing) {
  StageSamples samples(listKinds(), Sharding::Replicated);
  EXPECT_FALSE(samples.get(1, 2));
  samples.add({Middle}, makeStage(4, 10));
  EXPECT_TRUE(samples.get(4, 5));
  EXPECT_FALSE(samples.get(4, 6));
  EXPECT_FALSE(samples.get(0, 2));
}

/// Two ranks of a pipeline, whose stages others divide by 4 along the batch.
TEST(Samples, MemoryFollowsFromWhatIsSharded) {
  Space space = makeSpace(/*microbatches=*/2);
  auto bound = [&](Sharding sharding, Sharding ofSamples) {
    StageSample stage = makeStage(1, 0);
    stage.parameterBytes = 400, stage.gradientBytes = 40, stage.stateBytes = 4;
    stage.microbatchBytes = 0.5;
    StageSamples samples(listKinds(), ofSamples);
    addAlike(samples, stage);
    Layout layout;
    layout.data = 4;
    layout.pipeline = 2;
    layout.sharding = sharding;
    return boundSchedules(space, cost::Cluster(), Shape{layout}, samples);
  };
  // Of parameters and states that are in shards already nothing is divided again. Where gradients
  // are scattered at once, only a program that does so says what is there while it runs.
  using enum Sharding;
  for (auto [sharding, ofSamples, bytes] : {std::tuple(Replicated, Replicated, 444.5),
                                            {Zero1, Replicated, 441.5},
                                            {FsdpOnce, Replicated, 141.5},
                                            {Fsdp, Replicated, 111.0},
                                            {FsdpOnce, FsdpOnce, 444.5},
                                            {Fsdp, FsdpOnce, 414.0},
                                            {Fsdp, Fsdp, 444.5}})
    for (const PlanBound &each : bound(sharding, ofSamples))
      EXPECT_NEAR(each.memory, bytes, 1e-3);
  // Experts that two ranks share are half of the parameters and the states, divided by the others.
  space.programs.front().expertBytes.assign(12, {/*parameters=*/66, /*gradients=*/0, /*states=*/2});
  auto boundExperts = [&](Sharding sharding) {
    Layout layout;
    layout.data = 2, layout.experts = 2, layout.pipeline = 2;
    layout.sharding = sharding;
    StageSamples samples(listKinds(), Sharding::Replicated);
    StageSample stage = makeStage(1, 0);
    stage.parameterBytes = 400, stage.stateBytes = 12;
    addAlike(samples, stage);
    return boundSchedules(space, cost::Cluster(), Shape{layout}, samples).front().memory;
  };
  // Of six layers: 198 bytes of parameters and 6 of states are experts'.
  EXPECT_NEAR(boundExperts(Sharding::Replicated), 412, 1e-3);
  EXPECT_NEAR(boundExperts(Sharding::Zero1), 400 + 6.0 / 2 + 6.0 / 4, 1e-3);
  EXPECT_NEAR(boundExperts(Sharding::FsdpOnce), 198.0 / 2 + 202.0 / 4 + 6.0 / 2 + 6.0 / 4, 1e-3);
}

/// A rank has gathered parameters of up to three of its stages at a time, as its schedule says.
TEST(Samples, GatheredParametersCountAsTheScheduleHasThem) {
  Space space = makeSpace(/*microbatches=*/4);
  auto bound = [&](int64_t chunks, double gathered) {
    StageSamples samples(listKinds(), Sharding::FsdpOnce);
    StageSample stage = makeStage(1, 0);
    stage.gatheredBytes = gathered;
    addAlike(samples, stage);
    Shape shape;
    shape.layout.data = 4;
    shape.layout.pipeline = 2;
    shape.layout.sharding = Sharding::FsdpOnce;
    shape.chunks = chunks;
    std::map<std::string, double> bytes;
    for (auto [name, bound] : llvm::zip_equal(
             space.listSchedules(shape), boundSchedules(space, cost::Cluster(), shape, samples)))
      bytes[name] = bound.memory;
    return bytes;
  };
  EXPECT_NEAR(bound(1, 10).at("1f1b"), 10, 1e-6);
  EXPECT_NEAR(bound(2, 10).at("interleaved-1f1b"), 20, 1e-6);
  EXPECT_NEAR(bound(4, 10).at("interleaved-1f1b"), 30, 1e-6);
  EXPECT_NEAR(bound(4, 0).at("interleaved-1f1b"), 0, 1e-6);
}

/// What is said of all schedules at once is no more than what is said of any that fits.
TEST(Samples, OneBoundOfAllSchedules) {
  constexpr double endless = std::numeric_limits<double>::infinity();
  Space space = makeSpace(/*microbatches=*/8);
  for (int64_t ranks : {2, 4})
    for (int64_t chunks : {1, 2})
      for (bool splits : {false, true}) {
        Shape shape;
        shape.layout.pipeline = ranks;
        shape.chunks = chunks;
        shape.splitsBackward = splits;
        StageSamples samples(listKinds(), Sharding::Replicated);
        StageSample stage = makeStage(1, 10);
        stage.backward = {2, 0.5}, stage.input = {1, 0.25}, stage.weight = {1, 0.25};
        addAlike(samples, stage);
        auto bound = [&](double memory) {
          return boundSampled(space, cost::Cluster(), shape, samples, memory);
        };
        std::vector<PlanBound> plans = boundSchedules(space, cost::Cluster(), shape, samples);
        ASSERT_FALSE(plans.empty());
        // Passes of eight microbatches, each of which takes three seconds or more in a stage.
        EXPECT_GE(bound(endless), 24 * double(chunks));
        for (const PlanBound &limit : plans)
          for (const PlanBound &plan : plans)
            if (plan.memory <= limit.memory)
              EXPECT_LE(bound(limit.memory), plan.seconds * (1 + rounding));
        // Little room takes time, and without any nothing fits.
        EXPECT_GT(bound(plans.front().memory / 8), bound(endless));
        EXPECT_TRUE(std::isinf(bound(0)));
      }
  EXPECT_EQ(boundSampled(space, cost::Cluster(), {}, StageSamples(listKinds(), Sharding::Fsdp), 1),
            0);
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
