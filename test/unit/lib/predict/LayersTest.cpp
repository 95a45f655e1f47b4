// What recipes and models add to layers: parts that the backward repeats, small kernels, further
// predictions.

#include "lib/predict/StepTime.h"
#include "lib/predict/Transformer.h"
#include "test/unit/lib/predict/Clusters.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::predict;

namespace {
/// Layers of 4 experts on 2 ranks, 2 for each token; 64 tokens.
struct LayersTest : testing::Test {
  LayersTest() {
    layout.layers = 6;
    layout.hidden = 32;
    layout.ffn = 48;
    layout.heads = layout.kvHeads = 4;
    layout.vocabulary = 128;
    layout.sequence = 64;
    layout.experts = 4;
    layout.expertsPerToken = 2;
    layout.microBatch = layout.microbatches = 1;
    layout.globalBatch = layout.gpus = layout.gpusPerNode = layout.data = layout.expert = 2;
    layout.tensor = layout.pipeline = layout.chunks = layout.context = layout.shardRanks = 1;
    layout.recompute = Recompute::None;
    layout.attention = AttentionKind::Flash;
    layout.dimensions.gated = 1;
    before = getExpertLayer(shape());
  }
  Shape shape() const { return {&layout, 1, 1}; }

  /// What the layer has more than before.
  struct More {
    double flops, bytes, kernels;
    bool operator==(const More &) const = default;
  };
  static More sum(const Pass &pass) {
    More all = {};
    for (const LayerOp &op : pass) {
      all.flops += cost::flopsOf(op);
      if (op.kind == LayerOp::Bytes)
        all.bytes += op.bytes;
      if (op.kind != LayerOp::Communication)
        all.kernels += op.kernels;
    }
    return all;
  }
  static More more(const Pass &pass, const Pass &before) {
    More now = sum(pass), then = sum(before);
    return {now.flops - then.flops, now.bytes - then.bytes, now.kernels - then.kernels};
  }
  More forward() const { return more(getExpertLayer(shape()).forward, before.forward); }
  More backward() const { return more(getExpertLayer(shape()).backward, before.backward); }
  double saved() const { return getExpertLayer(shape()).savedBytes - before.savedBytes; }

  Layout layout = {};
  LayerClass before;
  const double tokens = 64, hidden = 32, ffn = 48, chosen = 2 * tokens;
};

void PrintTo(const LayersTest::More &more, std::ostream *out) {
  *out << more.flops << " flops, " << more.bytes << " bytes, " << more.kernels << " kernels";
}
} // namespace

TEST_F(LayersTest, RepeatedProjectionsNeedNotBeKept) {
  Model &model = layout.dimensions;
  model.queryRank = 12;
  model.valueRank = 8;
  model.rotaryDimension = 4;
  before = getExpertLayer(shape());
  layout.software.recomputesProjections = 1;
  EXPECT_EQ(forward(), (More{0, 0, 0}));
  double queries = hidden, full = queries + 4 * 4;
  EXPECT_EQ(backward(),
            (More{2 * tokens * (12 * full + 8 * 2 * queries), 8 * tokens * full, 2 + 4}));
  EXPECT_EQ(saved(), -2 * tokens * (2 * full + queries));
}

TEST_F(LayersTest, RepeatedNormsAndActivationsNeedNotBeKept) {
  layout.software.recomputesNorms = 1;
  EXPECT_EQ(forward(), (More{0, 0, 0}));
  EXPECT_EQ(backward(), (More{0, 2 * 4 * tokens * hidden, 2}));
  EXPECT_EQ(saved(), -2 * tokens * hidden); // what attention's products read
  layout.software.recomputesNorms = 0;
  layout.software.recomputesActivation = 1;
  EXPECT_EQ(backward(), (More{0, 6 * chosen * ffn, 1}));
  EXPECT_EQ(saved(), -2 * chosen * ffn);
}

TEST_F(LayersTest, ExpertsHaveBiasesOfTheirOwn) {
  layout.dimensions.biasesExperts = 1;
  // Two experts on a rank.
  EXPECT_EQ(forward(), (More{0, 28 * chosen * hidden, 2 * 2 + 2}));
  EXPECT_EQ(backward(), (More{0, 40 * chosen * hidden, 6 * 2 + 3}));
  layout.software.fusesPointwise = 2;
  LayerClass with = getExpertLayer(shape());
  layout.dimensions.biasesExperts = 0;
  EXPECT_EQ(sum(with.forward), sum(getExpertLayer(shape()).forward));
}

TEST_F(LayersTest, ClampsAreKernelsOfTheirOwnAndAreRepeatedWithTheActivation) {
  layout.dimensions.clampsActivation = 1;
  EXPECT_EQ(forward(), (More{0, 16 * chosen * ffn, 3}));
  EXPECT_EQ(backward(), (More{0, 20 * chosen * ffn, 3}));
  layout.software.recomputesActivation = 1;
  EXPECT_EQ(backward(), (More{0, (20 + 16 + 6) * chosen * ffn, 3 + 3 + 1}));
}

TEST_F(LayersTest, HeadsAreNormalized) {
  layout.dimensions.normalizesHeads = 1;
  EXPECT_EQ(forward(), (More{0, 4 * tokens * 2 * hidden, 2}));
  EXPECT_EQ(backward(), (More{0, 10 * tokens * 2 * hidden, 4}));
}

TEST_F(LayersTest, ADispatcherHasItsOwnSmallKernels) {
  Software &software = layout.software;
  software.flexible.routerKernels += 3;
  software.flexible.sortBackwardKernels += 2;
  EXPECT_EQ(forward(), (More{0, 0, 3}));
  EXPECT_EQ(backward(), (More{0, 0, 2}));
  software.repeatsTokens = 1;
  before = getExpertLayer(shape());
  software.flexible.routerKernels += 3; // those of the other dispatcher
  software.repeated.sortKernels += 1;
  software.repeated.routerBackwardKernels += 4;
  EXPECT_EQ(forward(), (More{0, 0, 1}));
  EXPECT_EQ(backward(), (More{0, 0, 4}));
}

TEST_F(LayersTest, SharesGoWithTokens) {
  auto exchanged = [&](double near) {
    LayerClass layer = getExpertLayer({&layout, 1, 1, near});
    std::vector<std::pair<cost::Collective, double>> bytes;
    for (const Pass *pass : {&layer.forward, &layer.backward})
      for (const LayerOp &op : *pass)
        if (op.kind == LayerOp::Communication)
          bytes.emplace_back(op.collective, op.bytes);
    return bytes;
  };
  constexpr auto gather = cost::Collective::AllGather, all = cost::Collective::AllToAll;
  using Expected = std::vector<std::pair<cost::Collective, double>>;
  const double token = 2 * tokens * hidden, experts = 4, map = 2 * tokens * experts;
  double shares = 4 * tokens * experts;
  auto expected = [&](double more) -> Expected {
    return {{gather, map}, {all, token + more}, {all, token}, {all, token}, {all, token + more}};
  };
  EXPECT_EQ(exchanged(0), expected(shares));
  EXPECT_EQ(exchanged(2), exchanged(0));
  // A node has one of the ranks: half of the experts.
  EXPECT_EQ(exchanged(1), expected(shares / 2));
  layout.software.repeatsTokens = 1;
  shares = 4 * chosen;
  EXPECT_EQ(exchanged(0), (Expected{{all, 2 * token},
                                    {all, shares},
                                    {all, 2 * token},
                                    {all, 2 * token},
                                    {all, 2 * token},
                                    {all, shares}}));
}

TEST_F(LayersTest, ExchangesOfTheFirstMicrobatchesAreNotCovered) {
  auto overlap = [&](int64_t pipeline, int64_t microbatches) {
    layout.pipeline = pipeline;
    layout.microbatches = microbatches;
    LayerClass layer = getExpertLayer(shape());
    return llvm::find_if(layer.forward,
                         [](const LayerOp &op) { return op.kind == LayerOp::Communication; })
        ->overlap;
  };
  EXPECT_EQ(overlap(1, 8), 0);
  layout.software.overlapsExperts = 1;
  EXPECT_EQ(overlap(1, 8), 1 - 1.0 / 8);
  EXPECT_EQ(overlap(4, 16), 1 - 4.0 / 16);
  EXPECT_EQ(overlap(8, 4), 0);
}

TEST_F(LayersTest, WeightsGradientsAreAddedToThoseBefore) {
  layout.software.gradientStateBytes = 4;
  auto added = [&] {
    double bytes = 0;
    for (const LayerOp &op : getExpertLayer(shape()).backward)
      bytes += op.product.added;
    return bytes;
  };
  // Of queries, keys and values; attention's output; the router; two of the experts.
  EXPECT_EQ(added(), 5 * 4);
  cost::MatrixProduct product{3, 5, 7, 11, cost::Width::Bits16};
  double written = product.bytes();
  product.added = 4;
  EXPECT_EQ(product.bytes() - written, 3 * 5 * 7 * (2 * 4 - 2));
  layout.software.accumulationBytes = 6;
  EXPECT_EQ(added(), 0);
}

TEST_F(LayersTest, AFurtherPredictionTakesALayerAProductAndTheHead) {
  Terms terms{.tiles = false};
  Prediction one = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms));
  layout.layers += 1;
  Prediction longer = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms));
  layout.layers -= 1;
  layout.dimensions.predictions = 1;
  Prediction two = llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms));
  double join = 6 * tokens * 2 * hidden * hidden, head = 6 * tokens * hidden * 128;
  EXPECT_NEAR(two.seconds - longer.seconds, (join + head) / 1e12, 1e-6 * one.seconds);
}

TEST_F(LayersTest, StagesAreFilledFromTheFront) {
  layout.experts = layout.expertsPerToken = 0;
  layout.gpus = layout.pipeline = 4;
  layout.globalBatch = layout.data = layout.expert = 1;
  Terms terms{.tiles = false, .bubble = false};
  auto busiest = [&](double vocabulary) {
    layout.vocabulary = int64_t(vocabulary);
    return llvm::cantFail(predictStep(layout, makeCluster(), nullptr, terms)).seconds;
  };
  double layer = busiest(1) / 2; // 6 layers on 4 stages: two of them have two
  double head = 6 * tokens * hidden / 1e12, vocabulary = std::ceil(1.5 * layer / head);
  // The last stage has one layer and the head; where the others are filled, the head alone.
  EXPECT_NEAR(busiest(vocabulary), layer + head * vocabulary, 1e-3 * layer);
  layout.software.fillsStages = 1;
  EXPECT_NEAR(busiest(vocabulary), 2 * layer, 1e-3 * layer);
}

TEST_F(LayersTest, ShortHeadsLeaveAttentionPartOfItsRate) {
  auto rates = [&](int64_t heads) {
    layout.hidden = 512;
    layout.heads = layout.kvHeads = heads;
    LayerClass layer = getExpertLayer(shape());
    std::pair<double, double> result = {};
    for (const LayerOp &op : layer.forward)
      if (op.kind == LayerOp::Attention)
        result.first = op.rate;
    for (const LayerOp &op : layer.backward)
      if (op.kind == LayerOp::Attention)
        result.second = op.rate;
    return result;
  };
  EXPECT_EQ(rates(2), std::pair(1.0, 1.0)); // 256 deep: no faster than 128
  EXPECT_EQ(rates(4), std::pair(1.0, 1.0));
  EXPECT_DOUBLE_EQ(rates(8).first, 2. / 3);
  EXPECT_DOUBLE_EQ(rates(8).second, 5. / 6);
  layout.software.attentionRate = 0.5;
  EXPECT_DOUBLE_EQ(rates(8).first, 1. / 3);
}
