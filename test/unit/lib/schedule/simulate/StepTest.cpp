// Whole steps of programs on a cluster, where they can be worked out by hand.

#include "lib/schedule/simulate/Step.h"
#include "lib/schedule/builders/Builder.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::simulate;

/// A device of one operation a second, and links of one byte a second; nothing takes time besides.
static cost::Cluster makeCluster() {
  cost::Cluster cluster;
  cluster.name = "test";
  cluster.device.name = "chip";
  cluster.device.processors = 0;
  cluster.device.memory = 1e9;
  cluster.device.memoryBandwidth = 1e30;
  cost::Link link;
  link.name = "wire";
  link.bandwidth = 1;
  cluster.levels = {{link, 0}};
  return cluster;
}

static OpWork makeProduct(double seconds) {
  OpWork op;
  op.kind = OpWork::Product;
  op.product = {1, 1, 1, seconds / 2, cost::Width::Bits16};
  return op;
}

/// An all-gather among 2 ranks that takes so many seconds.
static OpWork makeGather(double seconds, int starts = -1) {
  OpWork op;
  op.kind = OpWork::Communication;
  op.collective = cost::Collective::AllGather;
  op.bytes = 2 * seconds;
  op.starts = starts;
  op.name = 1;
  return op;
}

static OpWork makeWait(int number) {
  OpWork op;
  op.awaits = number;
  op.kernels = 0;
  return op;
}

/// A copy that takes so many seconds on a link of one byte a second.
static OpWork makeCopy(double seconds, bool isToHost, int starts = -1) {
  OpWork op;
  op.kernels = 0;
  op.hostBytes = seconds;
  op.isToHost = isToHost;
  op.starts = starts;
  return op;
}

/// An event that is recorded, or waited for.
static OpWork makeEvent(Stream stream, int starts, int awaits) {
  OpWork op;
  op.isEvent = true;
  op.kernels = 0;
  op.stream = stream;
  op.starts = starts;
  op.awaits = awaits;
  return op;
}

/// Stages of 2 ranks along "dp".
static ProgramWork makeProgram(unsigned stages) {
  ProgramWork program;
  program.names = {"product", "gather"};
  program.groups = {{"dp", {2, 1}}};
  program.devices = 2 * stages;
  program.pipelineStride = 2;
  program.examples = 8;
  program.tokens = 80;
  program.flopsOfWidth[size_t(cost::Width::Bits16)] = 6;
  program.stages.resize(stages);
  for (StageWork &stage : program.stages) {
    stage.hasBackward = true;
    stage.hasHalves = false;
    stage.forward = {makeProduct(2)};
    stage.backward = {makeProduct(4)};
    stage.modelFlops = 6;
    stage.state = {10, 20, 30, 40};
    stage.workBytes = 5;
  }
  return program;
}

static schedule::Schedule makeSchedule(unsigned ranks, unsigned microbatches) {
  schedule::BuildRequest request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  return llvm::cantFail(schedule::ScheduleRegistry::global().find("1f1b")->build(request));
}

TEST(FunctionTime, CommunicationIsHiddenUpToItsWait) {
  cost::Cluster cluster = makeCluster();
  ProgramWork program = makeProgram(1);
  auto time = [&](std::vector<OpWork> ops) { return timeOf(cluster, program, ops); };
  FunctionTime plain = time({makeProduct(5), makeGather(3)});
  EXPECT_DOUBLE_EQ(plain.seconds, 8);
  EXPECT_DOUBLE_EQ(plain.exposed[0], 3);
  FunctionTime hidden = time({makeGather(3, 0), makeProduct(5), makeWait(0)});
  EXPECT_DOUBLE_EQ(hidden.seconds, 5);
  EXPECT_DOUBLE_EQ(hidden.exposed[0], 0);
  EXPECT_DOUBLE_EQ(hidden.transfer[0], 3);
  // They follow each other: the second ends at 6.
  FunctionTime two = time({makeGather(3, 0), makeGather(3, 1), makeProduct(5), makeWait(1)});
  EXPECT_DOUBLE_EQ(two.seconds, 6);
  EXPECT_DOUBLE_EQ(two.exposed[0], 1);
  // Kernels beside it are slower.
  cluster.device.overlapSlowdown = 0.5;
  EXPECT_DOUBLE_EQ(time({makeGather(3, 0), makeProduct(5), makeWait(0)}).seconds, 6.5);
}

static cost::Cluster makeClusterWithHost() {
  cost::Cluster cluster = makeCluster();
  cluster.device.hostBandwidth = cluster.device.hostEfficiency = 1;
  return cluster;
}

TEST(FunctionTime, CopiesHaveAStreamOfTheirOwn) {
  cost::Cluster cluster = makeClusterWithHost();
  ProgramWork program = makeProgram(1);
  auto time = [&](std::vector<OpWork> ops) { return timeOf(cluster, program, ops); };
  // From when its operand is there to the end of the function.
  FunctionTime hidden = time({makeProduct(2), makeCopy(3, true), makeProduct(5)});
  EXPECT_DOUBLE_EQ(hidden.seconds, 7);
  EXPECT_DOUBLE_EQ(hidden.exposedCopies, 0);
  ASSERT_EQ(hidden.copies.size(), 1u);
  EXPECT_DOUBLE_EQ(hidden.copies[0].begin, 2);
  EXPECT_DOUBLE_EQ(hidden.copies[0].end, 5);
  FunctionTime late = time({makeProduct(2), makeCopy(3, true), makeProduct(1)});
  EXPECT_DOUBLE_EQ(late.seconds, 5);
  EXPECT_DOUBLE_EQ(late.exposedCopies, 2);
  // A use waits for a reload, and both directions for each other.
  FunctionTime both =
      time({makeCopy(2, true), makeCopy(3, false, 0), makeProduct(1), makeWait(0), makeProduct(1)});
  EXPECT_DOUBLE_EQ(both.seconds, 6);
  EXPECT_DOUBLE_EQ(both.exposedCopies, 4);
  EXPECT_DOUBLE_EQ(both.copies[1].begin, 2);
  // Communication runs beside them, and is what is waited for where it takes longer.
  FunctionTime beside = time({makeGather(4, 0), makeCopy(3, false, 1), makeWait(1), makeWait(0)});
  EXPECT_DOUBLE_EQ(beside.seconds, 4);
  EXPECT_DOUBLE_EQ(beside.exposedCopies, 3);
  EXPECT_DOUBLE_EQ(beside.exposed[0], 1);
  // Kernels are not slower beside copies, but start as the host launches them.
  cluster.device.overlapSlowdown = 0.5;
  EXPECT_DOUBLE_EQ(time({makeCopy(3, true), makeProduct(5)}).seconds, 5);
  cluster.device.hostSeconds = 100;
  FunctionTime launched = time({makeProduct(2), makeCopy(3, true), makeProduct(2)});
  EXPECT_NEAR(launched.seconds, 300, 1e-3);
  EXPECT_NEAR(launched.copies[0].begin, 120, 1e-3);
  EXPECT_NEAR(launched.copies[0].end, 123, 1e-3);
}

TEST(FunctionTime, EventsOrderCopiesOfLoweredFunctions) {
  cost::Cluster cluster = makeClusterWithHost();
  ProgramWork program = makeProgram(1);
  auto time = [&](std::vector<OpWork> ops) { return timeOf(cluster, program, ops); };
  OpWork reload = makeCopy(3, false);
  reload.hasEvents = true;
  // Nothing was in its place: it starts with the function, wherever it stands.
  FunctionTime early = time({makeProduct(5), reload, makeEvent(Stream::Host, 0, -1),
                             makeEvent(Stream::Compute, -1, 0), makeProduct(1)});
  EXPECT_DOUBLE_EQ(early.seconds, 6);
  EXPECT_DOUBLE_EQ(early.exposedCopies, 0);
  // It waits for the kernel that was the last in its place, and the next for it.
  FunctionTime after = time({makeProduct(2), makeEvent(Stream::Compute, 0, -1), makeProduct(1),
                             makeEvent(Stream::Host, -1, 0), reload, makeEvent(Stream::Host, 1, -1),
                             makeEvent(Stream::Compute, -1, 1), makeProduct(1)});
  EXPECT_DOUBLE_EQ(after.copies[0].begin, 2);
  EXPECT_DOUBLE_EQ(after.seconds, 6);
  EXPECT_DOUBLE_EQ(after.exposedCopies, 2);
  // Of a collective's result, it waits for the collective.
  FunctionTime gathered = time({makeGather(4, 0), makeEvent(Stream::Communication, 1, -1),
                                makeEvent(Stream::Host, -1, 1), reload});
  EXPECT_DOUBLE_EQ(gathered.seconds, 7);
}

TEST(Step, CopiesAreReportedByThemselves) {
  cost::Cluster cluster = makeClusterWithHost();
  ProgramWork program = makeProgram(4);
  program.hasHostCopies = true;
  program.names = {"product", "copy"};
  for (StageWork &stage : program.stages) {
    OpWork offload = makeCopy(3, true), reload = makeCopy(3, false, 0);
    offload.name = reload.name = 1;
    stage.forward = {makeProduct(1), offload, makeProduct(1)};
    stage.backward = {reload, makeProduct(2), makeWait(0), makeProduct(2)};
    stage.hostForward = {4, 3};
    stage.hostBackward = {3, 0};
  }
  auto schedule = makeSchedule(4, 8);
  Step step = llvm::cantFail(predictStep(cluster, program, schedule));
  // 4 and 5 seconds, of which 2 and 1 wait.
  EXPECT_DOUBLE_EQ(step.seconds, 9 * (8 + 3));
  EXPECT_DOUBLE_EQ(step.copies.exposed, 8 * 3);
  EXPECT_DOUBLE_EQ(step.copies.seconds, 8 * 6);
  EXPECT_DOUBLE_EQ(step.copies.bytes, 8 * 6);
  EXPECT_DOUBLE_EQ(step.compute, 8 * 6);
  EXPECT_DOUBLE_EQ(step.bubble, 9 * 3);
  EXPECT_EQ(step.ops[0].name, "product");
  EXPECT_DOUBLE_EQ(step.ops[1].seconds, 8 * 6);
  // As many microbatches in flight as places behind it.
  EXPECT_DOUBLE_EQ(step.memory[0].host, 13);
  EXPECT_DOUBLE_EQ(step.memory[3].host, 4);
  EXPECT_DOUBLE_EQ(step.maxHostMemory(), 13);

  std::vector<StageTime> times = timeStages(cluster, program);
  Timeline timeline =
      llvm::cantFail(simulate::simulate(schedule, costsOfStages(cluster, program, times)));
  std::vector<HostCopy> copies = listCopies(program, schedule, times, timeline, 1);
  ASSERT_EQ(copies.size(), 16u);
  // The first forward of rank 1 begins when that of rank 0 has ended, in milliseconds.
  EXPECT_DOUBLE_EQ(copies[0].begin, 5000);
  EXPECT_DOUBLE_EQ(copies[0].end, 8000);
  EXPECT_TRUE(copies[0].isToHost);
}

TEST(Step, ALinkToTheHostThatIsNotDescribedIsRefused) {
  ProgramWork program = makeProgram(1);
  cost::Cluster cluster = makeCluster();
  EXPECT_FALSE(bool(checkHostLink(cluster, program)));
  program.hasHostCopies = true;
  cluster.device.file = "chip.json";
  EXPECT_EQ(llvm::toString(checkHostLink(cluster, program)),
            "chip.json: facts: expected \"host_bandwidth\", bytes per second and direction, since "
            "the program copies to host memory, found none");
  EXPECT_FALSE(bool(checkHostLink(makeClusterWithHost(), program)));
}

TEST(FunctionTime, AGroupOfOneSendsNothing) {
  ProgramWork program = makeProgram(1);
  program.groups[0].ranks.size = 1;
  EXPECT_DOUBLE_EQ(timeOf(makeCluster(), program, {makeProduct(5), makeGather(3)}).seconds, 5);
}

TEST(FunctionTime, TheHostLaunchesUnlessGraphsAreReplayed) {
  cost::Cluster cluster = makeCluster();
  cluster.device.hostSeconds = 10;
  ProgramWork program = makeProgram(1);
  std::vector<OpWork> ops = {makeProduct(1), makeProduct(1)};
  EXPECT_NEAR(timeOf(cluster, program, ops).seconds, 20, 1e-3);
  EXPECT_DOUBLE_EQ(timeOf(cluster, program, ops, {.usesGraphs = true}).seconds, 2);
}

TEST(Step, MicrobatchesThenTheUpdate) {
  ProgramWork program = makeProgram(1);
  // A bucket, half of which the last backward hides.
  OpWork bucket = makeGather(4);
  bucket.isOnce = true;
  program.stages[0].backward = {makeProduct(2), bucket, makeProduct(2)};
  program.stages[0].update = {makeProduct(1)};
  Step step = llvm::cantFail(predictStep(makeCluster(), program, makeSchedule(1, 3)));
  EXPECT_DOUBLE_EQ(step.seconds, 3 * 6 + 2 + 1);
  EXPECT_DOUBLE_EQ(step.compute, 3 * 6 + 1);
  ASSERT_EQ(step.exposed.size(), 1u);
  EXPECT_EQ(step.exposed[0].name, "dp");
  EXPECT_DOUBLE_EQ(step.exposed[0].seconds, 2);
  EXPECT_DOUBLE_EQ(step.bubble, 0);
  ASSERT_EQ(step.ops.size(), 2u);
  EXPECT_EQ(step.ops[0].name, "product");
  EXPECT_DOUBLE_EQ(step.ops[1].seconds, 4);
  // Two replicas.
  EXPECT_DOUBLE_EQ(step.flops, 2 * 3 * 6);
  EXPECT_DOUBLE_EQ(step.mfu, 36 / (21.0 * 2));
  EXPECT_DOUBLE_EQ(step.tokensPerSecond, 240 / 21.0);
  EXPECT_DOUBLE_EQ(step.examplesPerSecond, 24 / 21.0);
  ASSERT_EQ(step.memory.size(), 1u);
  EXPECT_DOUBLE_EQ(step.maxMemory(), 105);
}

TEST(Step, StagesThatDoTheSameTakeAsLong) {
  ProgramWork program = makeProgram(2);
  EXPECT_TRUE(program.stages[0].hasSameFunctions(program.stages[1]));
  program.stages[1].likeStage = 0;
  std::vector<StageTime> times = timeStages(makeCluster(), program);
  EXPECT_DOUBLE_EQ(times[1].backward.seconds, 4);
  program.stages[1].backward.push_back(makeProduct(1));
  EXPECT_FALSE(program.stages[0].hasSameFunctions(program.stages[1]));
}

TEST(Step, APipelineHasBubbles) {
  cost::Cluster cluster = makeCluster();
  cluster.device.stepSeconds = 1;
  cluster.error = 0.25;
  ProgramWork program = makeProgram(4);
  for (StageWork &stage : program.stages)
    stage.savedBytes = 100;
  Step step = llvm::cantFail(predictStep(cluster, program, makeSchedule(4, 8)));
  EXPECT_DOUBLE_EQ(step.seconds, 6 * (8 + 3) + 1);
  EXPECT_DOUBLE_EQ(step.bubble, 6 * 3);
  EXPECT_DOUBLE_EQ(step.other, 1);
  EXPECT_DOUBLE_EQ(step.lowest, 0.75 * step.seconds);
  EXPECT_DOUBLE_EQ(step.highest, 1.25 * step.seconds);
  // As many microbatches in flight as places behind it.
  EXPECT_DOUBLE_EQ(step.memory[0].activations, 400);
  EXPECT_DOUBLE_EQ(step.memory[3].activations, 100);
}

TEST(Step, HangsOnWhatItWaitsFor) {
  ProgramWork program = makeProgram(1);
  program.stages[0].forward.push_back(makeGather(12));
  auto result = llvm::cantFail(findSensitivities(makeCluster(), program, makeSchedule(1, 1)));
  ASSERT_GE(result.size(), 2u);
  // 12 of 18 seconds are the link's, 6 the device's.
  EXPECT_EQ(result[0].name.substr(0, 5), "wire.");
  EXPECT_NEAR(result[0].percent, -2.0 / 3, 0.02);
  for (const Sensitivity &each : result)
    if (each.name == "chip.flops_16bit") {
      EXPECT_NEAR(each.percent, -1.0 / 3, 0.02);
    }
}

TEST(Step, AWidthWithoutARateIsRefused) {
  ProgramWork program = makeProgram(1);
  cost::Cluster cluster = makeCluster();
  EXPECT_FALSE(bool(checkWidth(cluster, program)));
  program.flopsOfWidth[size_t(cost::Width::Bits32)] = 1;
  EXPECT_EQ(program.getWidth(), cost::Width::Bits16);
  EXPECT_NE(llvm::toString(checkWidth(cluster, program)).find("flops_32bit"), std::string::npos);
}
