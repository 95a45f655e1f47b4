//===- Transformer.cpp - what the layers of transformers do -------------------===//

#include "lib/predict/Transformer.h"

#include "lib/predict/LayerBuilder.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::predict;
using cost::Collective;
using cost::MatrixProduct;
using cost::Width;

double Shape::tokens() const {
  return microBatch * static_cast<double>(layout->sequence) / static_cast<double>(layout->context);
}

LayerClass predict::getBlock(const Shape &shape, Block block) {
  LayerBuilder b(shape);
  const Layout &layout = b.layout;
  double ffn = static_cast<double>(layout.ffn) / shape.tensor;
  double heads = b.queries / b.head;
  double sequence = static_cast<double>(layout.sequence);
  double size = shape.microBatch * heads * sequence * sequence;
  switch (block) {
  case Block::Norm1:
  case Block::Norm2:
    b.norm();
    break;
  case Block::Projection:
    b.linear(b.tokens, b.hidden, b.queries + 2 * b.keys, layout.width);
    b.moved(2 * 2 * b.tokens * (b.queries + 2 * b.keys),
            2 * 2 * b.tokens * (b.queries + 2 * b.keys), 3, 3);
    b.keep(2 * b.tokens * (b.queries + 2 * b.keys) + 2 * b.tokens * b.hidden / b.shared);
    b.layer.parameters += b.hidden * (b.queries + 2 * b.keys);
    b.reduceTensor(b.layer.backward);
    break;
  case Block::Scores:
    b.product({shape.microBatch * heads, sequence, sequence, b.head, Width::Bits16});
    break;
  case Block::Softmax:
    b.moved(4 * size, 6 * size, 1, 1);
    b.layer.savedBytes += 2 * size;
    break;
  case Block::AttentionDropout:
    b.moved(5 * size, 5 * size, 1, 1);
    b.layer.savedBytes += 3 * size;
    break;
  case Block::Context:
    b.product({shape.microBatch * heads, sequence, b.head, sequence, Width::Bits16});
    break;
  case Block::Output:
    b.linear(b.tokens, b.queries, b.hidden, layout.width);
    b.keep(2 * b.tokens * b.queries);
    b.layer.parameters += b.hidden * b.queries;
    b.reduceTensor(b.layer.forward);
    break;
  case Block::Residual1:
  case Block::Residual2:
    b.residual();
    break;
  case Block::Expand:
    b.linear(b.tokens, b.hidden, ffn, layout.width);
    b.keep(2 * b.tokens * b.hidden / b.shared);
    b.layer.parameters += b.hidden * ffn;
    b.reduceTensor(b.layer.backward);
    break;
  case Block::Activation:
    b.moved(4 * b.tokens * ffn, 6 * b.tokens * ffn, 1, 1);
    b.keep(2 * b.tokens * ffn);
    break;
  case Block::Contract:
    b.linear(b.tokens, ffn, b.hidden, layout.width);
    b.keep(2 * b.tokens * ffn);
    b.layer.parameters += b.hidden * ffn;
    b.reduceTensor(b.layer.forward);
    break;
  }
  b.accumulate(2);
  return b.layer;
}

/// Everything of a layer up to the feed-forward network.
static void addAttention(LayerBuilder &b) {
  const Layout &layout = b.layout;
  const Model &model = layout.dimensions;
  b.norm();
  double unfused = layout.software.fusesPointwise > 0 ? 1 : 2;
  if (model.queryRank > 0) {
    // Low-rank projections are not parted along heads before their second product.
    double heads = b.queries / b.head;
    double full = heads * (b.head + model.rotaryDimension);
    b.linear(b.tokens / b.shared, b.hidden,
             model.queryRank + model.valueRank + model.rotaryDimension, layout.width);
    b.moved(8 * b.tokens * (model.queryRank + model.valueRank), 16 * b.tokens * model.queryRank, 2,
            4);
    size_t begin = b.layer.forward.size();
    b.linear(b.tokens, model.queryRank, full, layout.width);
    b.linear(b.tokens, model.valueRank, 2 * b.queries, layout.width);
    b.moved(8 * b.tokens * full, 8 * b.tokens * full, 4, 4);
    double kept = 2 * full + b.queries;
    if (layout.software.recomputesProjections > 0) {
      b.repeat(b.layer.forward.size() - begin);
      kept = 0;
    }
    b.keep(2 * b.tokens * (kept + model.queryRank + model.valueRank));
    b.layer.parameters += b.hidden * (model.queryRank + model.valueRank) + model.queryRank * full +
                          2 * model.valueRank * b.queries;
  } else {
    double width = b.queries + 2 * b.keys;
    b.linear(b.tokens, b.hidden, width, layout.width);
    // Heads are moved next to each other; rotary embeddings do it on the way.
    b.moved(4 * unfused * b.tokens * width, 4 * unfused * b.tokens * width, 3, 3);
    b.keep(2 * b.tokens * width);
    b.layer.parameters += b.hidden * width;
  }
  if (model.normalizesHeads > 0) {
    double size = b.tokens * (b.queries + b.keys);
    b.moved(4 * size, 10 * size, 2, 4);
  }
  if (!(layout.software.recomputesNorms > 0))
    b.keep(2 * b.tokens * b.hidden / b.gathered);
  if (layout.context > 1) {
    double bytes = 2 * 2 * b.tokens * static_cast<double>(layout.context) * b.keys;
    b.communicate(b.layer.forward, Collective::AllGather, Axis::Context, bytes, 0.8);
    b.communicate(b.layer.backward, Collective::AllGather, Axis::Context, bytes, 0.8);
    b.communicate(b.layer.backward, Collective::ReduceScatter, Axis::Context, bytes, 0.8);
  }
  b.attention();
  b.linear(b.tokens, b.queries, b.hidden, layout.width);
  b.keep(2 * b.tokens * b.queries);
  b.layer.parameters += b.hidden * b.queries;
  b.reduceTensor(b.layer.forward);
  b.reduceTensor(b.layer.backward);
  b.residual();
}

/// A feed-forward network on `tokens` rows, `batch` of them side by side.
static void addNetwork(LayerBuilder &b, double tokens, double ffn, double batch, double kernels,
                       bool experts = false) {
  double matrices = b.layout.dimensions.gated > 0 ? 2 : 1;
  double unfused = b.layout.software.fusesPointwise > 0 ? 1 : 2;
  Width width = b.layout.width;
  b.linear(tokens, b.hidden, matrices * ffn, width, batch, kernels);
  double size = batch * tokens * ffn;
  b.moved((2 * matrices + 2) * unfused * size, (4 * matrices + 2) * unfused * size, 1, 1);
  bool separate = experts && b.layout.software.fusesPointwise <= 1;
  size_t ops = 1;
  if (separate && b.layout.dimensions.clampsActivation > 0) {
    // Both halves are clamped and put next to each other again, by kernels of their own.
    b.moved(16 * size, 20 * size, 3, 3);
    ++ops;
  }
  bool recomputes = experts && b.layout.software.recomputesActivation > 0;
  if (recomputes)
    b.repeat(ops);
  b.linear(tokens, ffn, b.hidden, width, batch, kernels);
  if (separate && b.layout.dimensions.biasesExperts > 0) {
    // A bias times each token's share, expert by expert, in 32 bits.
    double outputs = batch * tokens * b.hidden;
    b.moved(28 * outputs, 40 * outputs, 2 * batch + 2, 6 * batch + 3);
  }
  b.keep((2 * matrices + (recomputes ? 0 : 2)) * size);
}

LayerClass predict::getDenseLayer(const Shape &shape, double ffn) {
  LayerBuilder b(shape);
  addAttention(b);
  b.norm();
  addNetwork(b, b.tokens, ffn / shape.tensor, 1, 1);
  b.keep(2 * b.tokens * b.hidden / b.gathered);
  b.layer.parameters += (b.layout.dimensions.gated > 0 ? 3 : 2) * b.hidden * ffn / shape.tensor;
  b.reduceTensor(b.layer.forward);
  b.reduceTensor(b.layer.backward);
  b.residual();
  b.layer.inputBytes = 2 * b.tokens * b.hidden / b.shared;
  b.accumulate(12);
  return b.layer;
}

/// The part of the exchanges that runs beside another microbatch's layers: not of the microbatches
/// that a rank begins with, before the first backward, and ends with. An interleaved schedule's
/// rank r of p has 2 (p - 1 - r) + (chunks - 1) p + 1 such forwards of a chunk, in the mean p *
/// chunks; a single stage has one (Megatron-Core's schedules.py and combined_1f1b.py).
static double overlapOfExchanges(const Layout &layout) {
  double microbatches = static_cast<double>(std::max<int64_t>(layout.microbatches, 1));
  double alone = std::min(1.0, static_cast<double>(layout.pipeline) / microbatches);
  return layout.software.overlapsExperts * (1 - alone);
}

/// Tokens go to the ranks of their experts and back, gradients in the backward. With a token go the
/// shares that experts have in it, and their gradients come back: where it goes once for each
/// expert, in messages of their own; else (DeepEP's branch hybrid-ep) those of all experts of
/// a node, and every rank is told first where all tokens go.
static void addExchanges(LayerBuilder &b, double own) {
  const Layout &layout = b.layout;
  double experts = static_cast<double>(layout.experts);
  double chosen = static_cast<double>(layout.expertsPerToken);
  double ranks = static_cast<double>(layout.expert);
  double overlap = overlapOfExchanges(layout);
  bool repeats = layout.software.repeatsTokens > 0;
  auto exchange = [&](Pass &pass, double bytes) {
    b.communicate(pass, Collective::AllToAll, Axis::Expert, bytes, overlap);
    pass.back().copies = repeats ? 0 : chosen;
  };
  LayerClass &layer = b.layer;
  if (repeats) {
    double bytes = 2 * own * chosen * b.hidden, shares = 4 * own * chosen;
    for (double each : {bytes, shares, bytes})
      exchange(layer.forward, each);
    for (double each : {bytes, bytes, shares})
      exchange(layer.backward, each);
    return;
  }
  b.communicate(layer.forward, Collective::AllGather, Axis::Expert, own * experts * ranks, overlap);
  double nodes = b.shape.near > 0 ? std::max(ranks / b.shape.near, 1.0) : 1;
  double bytes = 2 * own * b.hidden, shares = 4 * own * experts / nodes;
  exchange(layer.forward, bytes + shares);
  exchange(layer.forward, bytes);
  exchange(layer.backward, bytes);
  exchange(layer.backward, bytes + shares);
}

LayerClass predict::getExpertLayer(const Shape &shape) {
  LayerBuilder b(shape);
  const Layout &layout = b.layout;
  addAttention(b);
  b.norm();
  Mark attention = b.mark();
  b.replay({}, attention, layout.software.graphsAttention > 0);
  double ffn = static_cast<double>(layout.ffn);
  double experts = static_cast<double>(layout.experts);
  double chosen = static_cast<double>(layout.expertsPerToken);
  double local = experts / static_cast<double>(layout.expert);
  // Experts are not parted: each rank has its share of the tokens, balanced.
  double own = b.tokens / shape.tensor;
  double matrices = layout.dimensions.gated > 0 ? 3 : 2;
  b.linear(own, b.hidden, experts, Width::Bits16); // router
  // Each rank tells all others how many tokens they get, and the host: small kernels.
  bool repeats = layout.software.repeatsTokens > 0;
  const Dispatcher &dispatcher = repeats ? layout.software.repeated : layout.software.flexible;
  b.moved(12 * own * experts, 12 * own * experts, dispatcher.routerKernels,
          dispatcher.routerBackwardKernels);
  b.replay(attention, b.mark(), layout.software.graphsRouter > 0);
  double bytes = 2 * own * chosen * b.hidden;
  if (layout.software.waitsExperts > 0)
    b.layer.forward.back().waits = 1;
  addExchanges(b, own);
  // Sorted by expert, and back: by the kernels that exchange them, or by rank, then by expert.
  double passes = repeats ? 6 : 4;
  b.moved(passes * bytes, passes * bytes, dispatcher.sortKernels, dispatcher.sortBackwardKernels);
  Mark sorted = b.mark();
  addNetwork(b, own * chosen / local, ffn, local, 1, true);
  if (layout.software.loopsExperts > 0)
    b.loop(sorted, local);
  b.keep(2 * own * chosen * b.hidden);
  b.layer.expertParameters += matrices * local * b.hidden * ffn;
  if (layout.dimensions.sharedExperts > 0) {
    double size = layout.dimensions.sharedExperts * ffn / shape.tensor;
    addNetwork(b, b.tokens, size, 1, 1);
    b.layer.parameters += matrices * b.hidden * size;
  }
  b.residual();
  b.keep(2 * b.tokens * b.hidden / b.shared);
  b.layer.inputBytes = 2 * b.tokens * b.hidden / b.shared;
  return b.layer;
}

LayerClass predict::getEmbedding(const Shape &shape) {
  LayerBuilder b(shape);
  double size = b.tokens * b.hidden;
  b.moved(8 * size / b.shared, 8 * size, 3, 3);
  b.layer.parameters = b.hidden * static_cast<double>(b.layout.vocabulary) / shape.tensor;
  if (shape.tensor > 1)
    b.communicate(b.layer.forward,
                  b.layout.sequenceParallel ? Collective::ReduceScatter : Collective::AllReduce,
                  Axis::Tensor, 2 * size, 0);
  b.layer.inputBytes = b.layer.savedBytes = b.layer.savedWithoutAgain = 0;
  b.accumulate(1);
  return b.layer;
}

LayerClass predict::getBatch(const Shape &shape) {
  LayerBuilder b(shape);
  if (b.layout.software.batchKernels > 0) {
    b.moved(0, 0, b.layout.software.batchKernels, 0);
    b.layer.forward.back().waits = b.layout.software.batchKernelsAfterWait;
  }
  return b.layer;
}

LayerClass predict::getHead(const Shape &shape) {
  LayerBuilder b(shape);
  double vocabulary = static_cast<double>(b.layout.vocabulary) / shape.tensor;
  b.norm();
  b.linear(b.tokens, b.hidden, vocabulary, Width::Bits16);
  // The loss: logits to 32 bits, their maximum, exponentials and sum.
  double size = b.tokens * vocabulary;
  const Software &software = b.layout.software;
  b.moved(software.lossBytes * size, software.lossBackwardBytes * size, software.lossKernels,
          software.lossBackwardKernels);
  if (shape.tensor > 1 && !b.layout.sequenceParallel)
    b.communicate(b.layer.backward, Collective::AllReduce, Axis::Tensor, 2 * b.tokens * b.hidden,
                  0);
  bool isParallel = shape.tensor > 1 && software.parallelLogitBytes > 0;
  b.keep((isParallel ? software.parallelLogitBytes : software.logitBytes) * size);
  b.keep(2 * b.tokens * b.hidden / b.gathered);
  b.layer.parameters += b.hidden * vocabulary;
  b.accumulate(1);
  return b.layer;
}

LayerClass predict::getJoin(const Shape &shape) {
  LayerBuilder b(shape);
  b.norm();
  b.norm();
  double tokens = b.tokens / b.shared;
  b.linear(tokens, 2 * b.hidden, b.hidden, b.layout.width);
  b.keep(2 * tokens * 2 * b.hidden);
  b.layer.parameters += 2 * b.hidden * b.hidden;
  b.accumulate(1);
  b.layer.append(getEmbedding(shape));
  return b.layer;
}
