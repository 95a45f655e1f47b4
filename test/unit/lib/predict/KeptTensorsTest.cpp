// Memory of plans by op, where it can be worked out by hand.

#include "lib/predict/KeptTensors.h"
#include "lib/predict/StepTime.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::predict;

namespace {
class KeptTensors : public testing::Test {
protected:
  KeptTensors() {
    layout.layers = 2;
    layout.hidden = 1024;
    layout.ffn = 4096;
    layout.heads = layout.kvHeads = 16;
    layout.vocabulary = 32000;
    layout.sequence = 512;
    layout.globalBatch = 8;
    layout.gpus = 2;
    layout.microbatches = 4;
    layout.data = layout.tensor = layout.pipeline = layout.chunks = 1;
    layout.context = layout.expert = layout.shardRanks = 1;
    layout.attention = AttentionKind::Unfused;
  }

  /// The ops of layers, of which `again` says which run again.
  std::vector<PlannedOp> makeOps(int64_t layers, llvm::function_ref<bool(Block)> again) const {
    std::vector<PlannedOp> ops;
    for (int64_t layer = 0; layer < layers; ++layer)
      for (unsigned i = 0; i < numBlocks; ++i)
        ops.push_back({PlannedOp::InLayer, layer, Block(i), 1, batch, again(Block(i))});
    return ops;
  }

  Layout layout = {};
  double batch = 2, hidden = batch * 512 * 1024, pairs = batch * 16 * 512 * 512;
};
} // namespace

TEST_F(KeptTensors, KeepsWhatTheFormulasOfKorthikantiSay) {
  // arXiv 2205.05198, equation 1, and what the stage sends.
  KeptBytes kept = keptBytes(layout, makeOps(3, [](Block) { return false; }));
  EXPECT_DOUBLE_EQ(kept.saved, 3 * (34 * hidden + 5 * pairs) + 2 * hidden);
  // Most stands at the network's last product: gradients of its result and of what goes into it,
  // while what was sent, and the mask of the last dropout, are free.
  EXPECT_DOUBLE_EQ(kept.most, kept.saved - 3 * hidden + 10 * hidden);
}

TEST_F(KeptTensors, ARunOfOpsThatRunAgainKeepsWhatGoesIntoIt) {
  auto attention = [](Block block) { return block >= Block::Scores && block <= Block::Context; };
  // Heads go into it, and the residual, which the normalization keeps anyhow.
  KeptBytes kept = keptBytes(layout, makeOps(1, attention));
  EXPECT_DOUBLE_EQ(kept.saved, 34 * hidden + 2 * hidden);
  // Its tensors stand when all that follows is free, with gradients of its result and of the
  // probabilities.
  EXPECT_DOUBLE_EQ(kept.most, 10 * hidden + 5 * pairs + 2 * hidden + 2 * pairs);
}

TEST_F(KeptTensors, ALayerBeginsARunOfItsOwn) {
  KeptBytes kept = keptBytes(layout, makeOps(5, [](Block) { return true; }));
  EXPECT_DOUBLE_EQ(kept.saved, (5 + 1) * 2 * hidden);
  // The last layer's tensors, without its input, which is kept, at the network's last product.
  EXPECT_DOUBLE_EQ(kept.most, kept.saved + 32 * hidden + 5 * pairs + 7 * hidden);
}

TEST_F(KeptTensors, WithoutDropoutProbabilitiesAreKeptOnce) {
  layout.software.dropsAttention = 0;
  KeptBytes kept = keptBytes(layout, makeOps(1, [](Block) { return false; }));
  EXPECT_DOUBLE_EQ(kept.saved, 34 * hidden + 2 * pairs + 2 * hidden);
}

TEST_F(KeptTensors, WhatLiesOnTheHostTakesNoMemory) {
  cost::Cluster cluster;
  cluster.device.processors = 1;
  cluster.device.memory = 1e15;
  cluster.device.memoryBandwidth = cluster.device.flops16 = 1e15;
  cost::Link link;
  link.bandwidth = 1e15;
  cluster.levels = {{link, 0}};
  layout.plan = "p";
  auto memoryOf = [&](llvm::StringRef onHost) {
    std::string text =
        llvm::formatv(R"({"p": {"layers_per_stage": [1, 1], "checkpointed_layers_per_stage": [0, 0],
      "gradient_accumulation_steps": 4, "stage_strategies": [[2, 1, 1, 0, 0, 0, {0}], [2, 1, 1, 0, 0, 0, {0}]]}})",
                      onHost);
    llvm::json::Value plans = llvm::cantFail(llvm::json::parse(text));
    return llvm::cantFail(predictStep(layout, cluster, plans.getAsObject())).memory;
  };
  // The last stage has the head and its normalization beside a layer, the first one the embedding.
  // Parameters 2 bytes, gradients 4, optimizer state 12.
  double all = memoryOf("0, 0, 0, 0"), parameters = (all - memoryOf("0, 0, 1, 0")) / 12;
  EXPECT_GT(parameters, 12 * 1024.0 * 1024 + 32000 * 1024.0);
  EXPECT_DOUBLE_EQ(memoryOf("0, 0.5, 0, 0"), all - 2 * parameters);
  EXPECT_DOUBLE_EQ(memoryOf("1, 0, 0.25, 0"), all - 5 * parameters);
  EXPECT_LT(memoryOf("1, 1, 1, 1"), 0.5 * (all - 18 * parameters));
}
