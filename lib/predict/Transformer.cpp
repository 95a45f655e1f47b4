//===- Transformer.cpp - what the layers of transformers do -------------------===//

#include "lib/predict/Transformer.h"

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

namespace {
/// So many ops that passes have.
struct Mark {
  size_t forward = 0, backward = 0;
};

/// Collects the ops of a block. Activations take 16 bits.
class Builder {
public:
  explicit Builder(const Shape &shape)
      : shape(shape), layout(*shape.layout), tokens(shape.tokens()),
        hidden(static_cast<double>(layout.hidden)),
        head(static_cast<double>(layout.headDimension())),
        queries(static_cast<double>(layout.heads) * head / shape.tensor),
        keys(std::max(static_cast<double>(layout.kvHeads) / shape.tensor, 1.0) * head),
        shared(layout.sequenceParallel ? shape.tensor : 1),
        gathered(layout.software.keepsGathered > 0 ? 1 : shared) {}

  /// x (m x k) times a weight (k x n): the gradients of both are products too.
  void linear(double m, double k, double n, Width width, double batch = 1, double kernels = 1) {
    forwardProduct({batch, m, n, k, width}, kernels);
    backwardProduct({batch, m, k, n, width}, kernels);
    if (!layout.lowRankTuning) {
      // The product adds its result to the microbatches' before, unless kernels of their own do.
      double added = layout.software.accumulationBytes > 0 ? 0 : layout.software.gradientStateBytes;
      backwardProduct({batch, k, n, m, width, added}, kernels);
    }
    if (width == Width::Bits16)
      return;
    // Operands are read in 16 bits, and written in fewer, once as they are and once transposed.
    double narrow = width == Width::Bits8 ? 4 : 3;
    double fused = layout.software.fusesPointwise > 1 ? 0.5 : 1;
    moved(fused * narrow * batch * m * k, fused * narrow * batch * m * n, 1, 1);
    layer.forward.back().narrows = layer.backward.back().narrows = true;
    layer.forward.back().launchCost = layer.backward.back().launchCost =
        layout.software.narrowLaunches;
  }
  /// A product of two activations.
  void product(const MatrixProduct &p) {
    forwardProduct(p, 1);
    backwardProduct({p.batch, p.m, p.k, p.n, p.width}, 1);
    backwardProduct({p.batch, p.k, p.n, p.m, p.width}, 1);
  }
  void moved(double forward, double backward, double kernels, double backwardKernels) {
    LayerOp op{LayerOp::Bytes};
    op.bytes = forward;
    op.kernels = kernels;
    layer.forward.push_back(op);
    op.bytes = backward;
    op.kernels = backwardKernels;
    layer.backward.push_back(op);
  }
  void communicate(Pass &pass, Collective kind, Axis axis, double bytes, double overlap) {
    LayerOp op{LayerOp::Communication};
    op.collective = kind;
    op.axis = axis;
    op.bytes = bytes;
    op.overlap = overlap;
    pass.push_back(op);
  }
  /// Sums what tensor-parallel ranks have of an activation (in `sum`), and passes gradients back
  /// to all of them (in `other`).
  void reduceTensor(Pass &pass) {
    if (shape.tensor <= 1)
      return;
    double bytes = 2 * tokens * hidden;
    double overlap = layout.software.overlapsTensor;
    if (!layout.sequenceParallel)
      return communicate(pass, Collective::AllReduce, Axis::Tensor, bytes, overlap);
    communicate(pass, Collective::AllGather, Axis::Tensor, bytes, overlap);
    communicate(pass, Collective::ReduceScatter, Axis::Tensor, bytes, overlap);
  }
  /// Adds the gradients of all parameters, so many tensors, to those of the microbatches before.
  void accumulate(double tensors) {
    double bytes = layout.software.accumulationBytes * (layer.parameters + layer.expertParameters);
    if (bytes == 0 || layout.lowRankTuning)
      return;
    LayerOp op{LayerOp::Bytes};
    op.bytes = bytes;
    op.kernels = tensors;
    layer.backward.push_back(op);
  }
  /// The backward computes the forward's last `count` ops once more.
  void repeat(size_t count) {
    layer.backward.insert(layer.backward.end(), layer.forward.end() - long(count),
                          layer.forward.end());
  }
  void keep(double bytes) {
    layer.savedBytes += bytes;
    layer.savedWithoutAgain += bytes;
  }

  void forwardProduct(const MatrixProduct &p, double kernels) { push(layer.forward, p, kernels); }
  void backwardProduct(const MatrixProduct &p, double kernels) { push(layer.backward, p, kernels); }

  Mark mark() const { return {layer.forward.size(), layer.backward.size()}; }
  /// The ops from one mark to another one are replayed, if `replays`.
  void replay(Mark from, Mark to, bool replays) {
    each(from, to, [&](LayerOp &op) { op.replayed = replays; });
  }
  /// Products that have been added since, and what makes their operands narrower, run once for each
  /// of `count` parts.
  void loop(Mark from, double count) {
    each(from, mark(), [&](LayerOp &op) {
      if (op.kind == LayerOp::Product || op.narrows)
        op.loops = count;
    });
  }

  void norm();
  void attention();
  void residual();

  const Shape &shape;
  const Layout &layout;
  double tokens, hidden, head, queries, keys, shared;
  double gathered; // ranks that share what products of whole sequences keep of their operand
  LayerClass layer;

private:
  template <typename Change> void each(Mark from, Mark to, Change change) {
    for (size_t i = from.forward; i < to.forward; ++i)
      change(layer.forward[i]);
    for (size_t i = from.backward; i < to.backward; ++i)
      change(layer.backward[i]);
  }
  void push(Pass &pass, const MatrixProduct &p, double kernels) const {
    LayerOp op{LayerOp::Product};
    op.product = p;
    op.kernels = kernels;
    if (p.width == Width::Bits8 || p.width == Width::Bits4)
      op.launchCost = layout.software.narrowLaunches;
    pass.push_back(op);
  }
};
} // namespace

void Builder::norm() {
  double size = tokens * hidden / shared;
  double unfused = layout.software.fusesPointwise > 0 ? 1 : 2;
  moved(4 * unfused * size, 10 * size, 1, 2);
  if (layout.software.recomputesNorms > 0)
    repeat(1);
  keep(2 * size);
  // Gated models normalize by the root mean square, without a bias.
  layer.parameters += (layout.dimensions.gated > 0 ? 1 : 2) * hidden;
}

void Builder::residual() {
  double size = tokens * hidden / shared;
  double fused = layout.dimensions.gated > 0 ? 6 : 7; // a dropout's mask is a byte more
  double unfused = layout.software.fusesPointwise > 0 ? 1 : 1.7;
  moved(fused * unfused * size, 4 * size, 1, 1);
  if (layout.dimensions.gated == 0)
    keep(size);
}

/// Scores, softmax and the product with the values, of the heads of a rank.
void Builder::attention() {
  double sequence = static_cast<double>(layout.sequence);
  double heads = queries / head;
  double rows = sequence / static_cast<double>(layout.context);
  double size = shape.microBatch * heads * rows * sequence;
  double depth = head + layout.dimensions.rotaryDimension;
  if (layout.attention == AttentionKind::Flash) {
    // Masked pairs are skipped. The backward has five products where the forward has two.
    double pairs = size / 2;
    if (layout.dimensions.window > 0 && layout.dimensions.window < sequence)
      pairs = (pairs + shape.microBatch * heads * rows * layout.dimensions.window) / 2;
    LayerOp op{LayerOp::Attention};
    op.flops = 2 * pairs * (depth + head);
    op.unmasked = pairs / size;
    op.tiles = shape.microBatch * heads * std::ceil(rows / 128);
    op.rate = layout.software.attentionRate;
    op.kernels = 1;
    layer.forward.push_back(op);
    layer.again.push_back(op);
    op.flops *= 2.5;
    op.kernels = 3;
    layer.backward.push_back(op);
    layer.savedBytes += 2 * tokens * queries;
    return;
  }
  size_t begin = layer.forward.size();
  product({shape.microBatch * heads, rows, sequence, depth, Width::Bits16});
  bool fused = layout.attention == AttentionKind::FusedSoftmax;
  if (double multiple = layout.software.softmaxMultiple)
    fused = std::fmod(shape.microBatch * heads, multiple) == 0;
  // Otherwise scale, mask, conversions and the softmax are passes of their own.
  if (fused)
    moved(4 * size, 6 * size, 1, 1);
  else
    moved(18 * size, 14 * size, 5, 4);
  bool drops = layout.software.dropsAttention > 0;
  if (drops)
    moved(5 * size, 5 * size, 1, 1);
  product({shape.microBatch * heads, rows, head, sequence, Width::Bits16});
  layer.again.insert(layer.again.end(), layer.forward.begin() + long(begin), layer.forward.end());
  layer.savedBytes += (drops ? 5 : 2) * size;
}

LayerClass predict::getBlock(const Shape &shape, Block block) {
  Builder b(shape);
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
static void addAttention(Builder &b) {
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
static void addNetwork(Builder &b, double tokens, double ffn, double batch, double kernels,
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
  Builder b(shape);
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

LayerClass predict::getExpertLayer(const Shape &shape) {
  Builder b(shape);
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
  for (Pass *pass : {&b.layer.forward, &b.layer.backward})
    for (int i = 0; i < 2; ++i) {
      b.communicate(*pass, Collective::AllToAll, Axis::Expert, repeats ? bytes : 2 * own * b.hidden,
                    layout.software.overlapsExperts);
      pass->back().copies = repeats ? 0 : chosen;
    }
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
  Builder b(shape);
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

LayerClass predict::getHead(const Shape &shape) {
  Builder b(shape);
  double vocabulary = static_cast<double>(b.layout.vocabulary) / shape.tensor;
  b.norm();
  b.linear(b.tokens, b.hidden, vocabulary, Width::Bits16);
  // The loss: logits to 32 bits, their maximum, exponentials and sum.
  double size = b.tokens * vocabulary;
  b.moved(b.layout.software.lossBytes * size, b.layout.software.lossBackwardBytes * size, 8, 4);
  if (shape.tensor > 1 && !b.layout.sequenceParallel)
    b.communicate(b.layer.backward, Collective::AllReduce, Axis::Tensor, 2 * b.tokens * b.hidden,
                  0);
  bool isParallel = shape.tensor > 1 && b.layout.software.parallelLogitBytes > 0;
  b.keep((isParallel ? b.layout.software.parallelLogitBytes : b.layout.software.logitBytes) * size);
  b.keep(2 * b.tokens * b.hidden / b.gathered);
  b.layer.parameters += b.hidden * vocabulary;
  b.accumulate(1);
  return b.layer;
}

LayerClass predict::getJoin(const Shape &shape) {
  Builder b(shape);
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
