// Whole steps, where they can be worked out by hand.

#include "lib/predict/StepTime.h"
#include "lib/predict/Transformer.h"
#include "test/unit/lib/predict/Clusters.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::predict;

static Layout makeLayout() {
  Layout layout = {};
  layout.layers = 8;
  layout.hidden = 1024;
  layout.ffn = 4096;
  layout.heads = layout.kvHeads = 16;
  layout.vocabulary = 32000;
  layout.sequence = 1024;
  layout.globalBatch = 16;
  layout.microBatch = 2;
  layout.microbatches = 8;
  layout.gpus = layout.gpusPerNode = 1;
  layout.data = layout.tensor = layout.pipeline = layout.chunks = layout.context = layout.expert =
      1;
  layout.shardRanks = 1;
  layout.recompute = Recompute::None;
  layout.attention = AttentionKind::Unfused;
  return layout;
}

static StageTime makeStage(double forward, double backward, double send) {
  StageTime stage;
  stage.forward.compute = forward;
  stage.backward.compute = backward;
  stage.send = send;
  return stage;
}

TEST(StepTime, ProductsOfAGPT) {
  Layout layout = makeLayout();
  Prediction step = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, {.tiles = false}));
  // 6 operations a parameter and token, and two products of queries, keys and values, three times.
  double tokens = 16 * 1024, hidden = 1024;
  double parameters = 8 * 12 * hidden * hidden + hidden * 32000;
  double flops = 6 * tokens * parameters + 3 * 8 * 4 * tokens * 1024 * hidden;
  EXPECT_NEAR(step.seconds, flops / 1e12, 1e-6 * step.seconds);
}

TEST(StepTime, RecomputationRepeatsTheForward) {
  Layout layout = makeLayout();
  Terms terms{.tiles = false};
  double without = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms)).seconds;
  layout.recompute = Recompute::Full;
  layout.recomputedLayers = 1;
  Prediction with = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms));
  double head = 6 * 16 * 1024.0 * 1024 * 32000 / 1e12;
  EXPECT_NEAR(with.seconds - head, (without - head) * 4 / 3, 1e-6);
}

TEST(StepTime, MoreMemoryThanThereIsMeansRecomputation) {
  Layout layout = makeLayout();
  cost::Cluster cluster = makeCluster();
  layout.recompute = Recompute::Unknown;
  Prediction roomy = llvm::cantFail(predictStep(layout, cluster, nullptr));
  EXPECT_TRUE(roomy.notes.empty());
  cluster.device.memory = roomy.memory * 0.8;
  Prediction tight = llvm::cantFail(predictStep(layout, cluster, nullptr));
  EXPECT_GT(tight.seconds, roomy.seconds);
  EXPECT_LT(tight.memory, roomy.memory);
  ASSERT_EQ(tight.notes.size(), 1u);
  EXPECT_EQ(tight.notes[0].substr(0, 10), "recompute:");
}

TEST(StepTime, OneForwardOneBackwardHasItsClosedForm) {
  for (unsigned microbatches : {4u, 8u, 100u}) {
    std::vector<StageTime> stages(4, makeStage(1, 2, 0));
    EXPECT_NEAR(llvm::cantFail(pipelineTime(stages, 4, microbatches, false)),
                3.0 * (microbatches + 3), 1e-9);
  }
}

TEST(StepTime, FewMicrobatchesStandForMany) {
  // Uneven stages: the slowest sets the pace. Against the whole simulation, of fewer than four
  // rounds, and by its growth.
  std::vector<StageTime> stages;
  for (double seconds : {1.0, 1.5, 1.2, 1.7})
    stages.push_back(makeStage(seconds, 2 * seconds, 0.1));
  double some = llvm::cantFail(pipelineTime(stages, 4, 16, false));
  double more = llvm::cantFail(pipelineTime(stages, 4, 20, false));
  EXPECT_NEAR(more - some, 4 * 1.7 * 3, 1e-9);
}

TEST(StepTime, InterleavingShortensTheBubble) {
  std::vector<StageTime> stages(8, makeStage(1, 2, 0));
  // p - 1 bubbles of one chunk.
  EXPECT_NEAR(llvm::cantFail(pipelineTime(stages, 4, 32, false)), 3.0 * (2 * 32 + 3), 1e-9);
}

TEST(StepTime, LayersAcrossTensorRanksShareTheirWork) {
  Layout layout = makeLayout();
  LayerClass one = getDenseLayer({&layout, 2, 1}, 4096), two = getDenseLayer({&layout, 2, 2}, 4096);
  auto flops = [](const LayerClass &layer) {
    double sum = 0;
    for (const LayerOp &op : layer.forward)
      sum += op.product.flops();
    return sum;
  };
  EXPECT_DOUBLE_EQ(flops(one), 2 * flops(two));
  EXPECT_TRUE(llvm::any_of(two.forward, [](const LayerOp &op) {
    return op.kind == LayerOp::Communication && op.collective == cost::Collective::AllReduce;
  }));
}

TEST(StepTime, ActivationsByTheFormulasOfKorthikanti) {
  // arXiv 2205.05198, equations 1 to 4: bytes that a layer keeps, s b h (10 + 24 / t + 5 a s / (h
  // t)).
  Layout layout = makeLayout();
  double s = 1024, b = 2, h = 1024, a = 16, t = 4;
  LayerClass layer = getDenseLayer({&layout, b, t}, 4096);
  EXPECT_DOUBLE_EQ(layer.savedBytes, s * b * h * (10 + 24 / t + 5 * a * s / (h * t)));
  EXPECT_DOUBLE_EQ(layer.savedWithoutAgain, s * b * h * (10 + 24 / t));
  EXPECT_DOUBLE_EQ(layer.inputBytes, 2 * s * b * h);
  layout.sequenceParallel = true;
  layer = getDenseLayer({&layout, b, t}, 4096);
  EXPECT_DOUBLE_EQ(layer.savedBytes, s * b * h / t * (34 + 5 * a * s / h));
  EXPECT_DOUBLE_EQ(layer.savedWithoutAgain, s * b * h / t * 34);
}

TEST(StepTime, StagesThatKeepTheirOutputsTakeThemAndABufferForEachGradient) {
  Layout layout = makeLayout();
  layout.gpus = layout.gpusPerNode = layout.pipeline = 4;
  layout.layers = 8;
  double without = llvm::cantFail(predictStep(layout, makeCluster(), nullptr)).allocated;
  layout.software.keepsStageOutputs = 1;
  double with = llvm::cantFail(predictStep(layout, makeCluster(), nullptr)).allocated;
  // On the first rank, whose four microbatches in flight take most, and which gets eight gradients.
  EXPECT_DOUBLE_EQ(with - without, (4 + 8) * 2 * 1024.0 * 1024 * 2);
}

TEST(StepTime, GradientsOfMicrobatchesAreAddedByKernelsOfTheirOwn) {
  Layout layout = makeLayout();
  LayerClass fused = getDenseLayer({&layout, 2, 1}, 4096);
  layout.software.accumulationBytes = 6;
  LayerClass apart = getDenseLayer({&layout, 2, 1}, 4096);
  EXPECT_EQ(apart.forward.size(), fused.forward.size());
  ASSERT_EQ(apart.backward.size(), fused.backward.size() + 1);
  EXPECT_EQ(apart.backward.back().kind, LayerOp::Bytes);
  EXPECT_DOUBLE_EQ(apart.backward.back().bytes, 6 * apart.parameters);
  EXPECT_EQ(apart.backward.back().kernels, 12);
  // Those of a tuned model stay as they are.
  layout.lowRankTuning = true;
  EXPECT_NE(getDenseLayer({&layout, 2, 1}, 4096).backward.back().kernels, 12);
}

TEST(StepTime, TheLossMovesTheBytesThatTheSoftwareSays) {
  Layout layout = makeLayout();
  double logits = 2 * 1024.0 * 32000;
  layout.software.lossBytes = 38;
  layout.software.lossBackwardBytes = 14;
  LayerClass head = getHead({&layout, 2, 1});
  auto has = [&](const Pass &pass, double bytes) {
    return llvm::any_of(pass, [&](const LayerOp &op) { return op.bytes == bytes * logits; });
  };
  EXPECT_TRUE(has(head.forward, 38));
  EXPECT_TRUE(has(head.backward, 14));
}

TEST(StepTime, LossesAndMicrobatchesTakeTheKernelsThatTheSoftwareSays) {
  Layout layout = makeLayout();
  cost::Cluster cluster = makeCluster();
  cluster.device.kernelSeconds = 1e-3;
  auto seconds = [&] { return llvm::cantFail(predictStep(layout, cluster, nullptr)).seconds; };
  double before = seconds();
  layout.software.lossKernels += 21;
  layout.software.lossBackwardKernels += 8;
  EXPECT_NEAR(seconds() - before, 8 * (21 + 8) * 1e-3, 1e-9);
  before = seconds();
  layout.software.batchKernels = 13;
  EXPECT_NEAR(seconds() - before, 8 * 13 * 1e-3, 1e-9);
  // The device idles for those that come after a wait: computation does not hide their launches.
  cluster.device.hostSeconds = 1e-5;
  before = seconds();
  layout.software.batchKernelsAfterWait = 10;
  EXPECT_NEAR(seconds() - before, 8 * 10 * 1e-5, 1e-7);
}

TEST(StepTime, AMicrobatchIsPreparedOnEachStage) {
  Layout layout = makeLayout();
  layout.gpus = layout.pipeline = 2;
  cost::Cluster cluster = makeCluster();
  cluster.device.kernelSeconds = 1e-3;
  auto seconds = [&] { return llvm::cantFail(predictStep(layout, cluster, nullptr)).seconds; };
  double before = seconds();
  layout.software.batchKernels = 13;
  // Eight on the busier stage, and one on the other before them.
  EXPECT_NEAR(seconds() - before, 9 * 13 * 1e-3, 1e-9);
}

TEST(StepTime, UpdatedParametersAreGatheredUnderTheForward) {
  Layout layout = makeLayout();
  layout.gpus = layout.data = layout.shardRanks = 2;
  layout.microbatches = 4;
  layout.shardStage = 1;
  layout.software.gradientBytes = 4;
  cost::Cluster cluster = makeCluster();
  cluster.levels[0].link.bandwidth = 1e12;
  auto gradients = [&] {
    return llvm::cantFail(predictStep(layout, cluster, nullptr, {.contention = false})).gradients;
  };
  double parameters = llvm::cantFail(predictStep(layout, cluster, nullptr)).parameters;
  // Half of each goes to the other rank.
  double byte = parameters / 2 / 1e12;
  EXPECT_NEAR(gradients(), (4 + 2) * byte, 1e-9 * byte);
  layout.software.overlapsGathers = 1;
  EXPECT_NEAR(gradients(), (4 + 0.05 * 2) * byte, 1e-9 * byte);
  layout.software.gathersNarrow = 1;
  EXPECT_NEAR(gradients(), (4 + 0.05 * 2) * byte, 1e-9 * byte); // products take 16 bits
  layout.width = cost::Width::Bits8;
  EXPECT_NEAR(gradients(), (4 + 0.05) * byte, 1e-9 * byte);
  layout.software.overlapsGradients = 1;
  EXPECT_NEAR(gradients(), 0.05 * (4 + 1) * byte, 1e-9 * byte);
}

TEST(StepTime, ShardedParametersAreGatheredForTheRecomputationToo) {
  Layout layout = makeLayout();
  layout.gpus = layout.data = layout.shardRanks = 2;
  layout.microbatches = 4;
  layout.shardStage = 3;
  layout.software.gradientBytes = 4;
  layout.recompute = Recompute::Full;
  layout.recomputedLayers = 1;
  auto step = [&] { return llvm::cantFail(predictStep(layout, makeCluster(), nullptr)); };
  auto sent = [&] { return step().sent[size_t(Axis::Data)]; };
  // Gathered for the forward and the backward, and reduced: half of each goes to the other rank.
  double once = 4 * (2 + 2 + 4) * step().parameters / 2;
  EXPECT_NEAR(sent(), once, 1e-9 * once);
  layout.software.gathersAgain = 1;
  double layers = 8 * getDenseLayer({&layout, 2, 1}, 4096).parameters;
  EXPECT_NEAR(sent(), once + 4 * 2 * layers / 2, 1e-9 * once);
}

TEST(StepTime, PartsOfShardedParametersAreCopiedOneByOne) {
  Layout layout = makeLayout();
  layout.gpus = layout.data = layout.shardRanks = 2;
  layout.microbatches = 4;
  layout.shardStage = 3;
  layout.software.gathersOfLayer = 4;
  cost::Cluster cluster = makeCluster();
  cluster.device.kernelSeconds = 1e-3;
  double without = llvm::cantFail(predictStep(layout, cluster, nullptr)).seconds;
  layout.software.copiesParts = 1;
  double with = llvm::cantFail(predictStep(layout, cluster, nullptr)).seconds;
  // 4 launches, and a kernel for each of 2 ranks: of two gathers and a reduction of 8 layers and of
  // what is before and behind them.
  EXPECT_NEAR(with - without, 4 * (8 + 2) * 3 * (4 + 4 * 2) * 1e-3, 1e-9);
}

TEST(StepTime, AttentionHasTheRateOfTheSoftwaresKernel) {
  Layout layout = makeLayout();
  layout.attention = AttentionKind::Flash;
  double best = llvm::cantFail(predictStep(layout, makeCluster(), nullptr)).seconds;
  layout.software.attentionRate = 0.5;
  double half = llvm::cantFail(predictStep(layout, makeCluster(), nullptr)).seconds;
  // Half of all pairs: 4 operations a dimension forward, 10 backward; heads of 64 dimensions have
  // two thirds of the rate, and five sixths.
  double pairs = 2 * 16 * 1024.0 * 1024 / 2;
  EXPECT_NEAR(half - best, 8 * 8 * (6 + 12) * pairs * 64 / 1e12, 1e-9);
}

TEST(StepTime, APlanThatIsNotThereIsRefused) {
  Layout layout = makeLayout();
  layout.plan = "p";
  EXPECT_EQ(llvm::toString(predictStep(layout, makeCluster(), nullptr).takeError()),
            "extra: the layout is a plan by op: expected 'p' in the file of --plans");
}
