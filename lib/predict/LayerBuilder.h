//===- LayerBuilder.h - collects what a layer does --------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_LAYERBUILDER_H
#define CLEAVE_LIB_PREDICT_LAYERBUILDER_H

#include "lib/predict/Transformer.h"

#include <algorithm>

namespace cleave::predict {

/// So many ops that passes have.
struct Mark {
  size_t forward = 0, backward = 0;
};

/// Collects the ops of a block. Activations take 16 bits.
class LayerBuilder {
public:
  explicit LayerBuilder(const Shape &shape)
      : shape(shape), layout(*shape.layout), tokens(shape.tokens()),
        hidden(static_cast<double>(layout.hidden)),
        head(static_cast<double>(layout.headDimension())),
        queries(static_cast<double>(layout.heads) * head / shape.tensor),
        keys(std::max(static_cast<double>(layout.kvHeads) / shape.tensor, 1.0) * head),
        shared(layout.sequenceParallel ? shape.tensor : 1),
        gathered(layout.software.keepsGathered > 0 ? 1 : shared) {}

  /// x (m x k) times a weight (k x n): the gradients of both are products too.
  void linear(double m, double k, double n, cost::Width width, double batch = 1,
              double kernels = 1) {
    forwardProduct({batch, m, n, k, width}, kernels);
    backwardProduct({batch, m, k, n, width}, kernels);
    if (!layout.lowRankTuning) {
      // The product adds its result to the microbatches' before, unless kernels of their own do.
      double added = layout.software.accumulationBytes > 0 ? 0 : layout.software.gradientStateBytes;
      backwardProduct({batch, k, n, m, width, added}, kernels);
    }
    if (width == cost::Width::Bits16)
      return;
    // Operands are read in 16 bits, and written in fewer, once as they are and once transposed.
    double narrow = width == cost::Width::Bits8 ? 4 : 3;
    double fused = layout.software.fusesPointwise > 1 ? 0.5 : 1;
    moved(fused * narrow * batch * m * k, fused * narrow * batch * m * n, 1, 1);
    layer.forward.back().narrows = layer.backward.back().narrows = true;
    layer.forward.back().launchCost = layer.backward.back().launchCost =
        layout.software.narrowLaunches;
  }
  /// A product of two activations.
  void product(const cost::MatrixProduct &p) {
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
  void communicate(Pass &pass, cost::Collective kind, Axis axis, double bytes, double overlap) {
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
      return communicate(pass, cost::Collective::AllReduce, Axis::Tensor, bytes, overlap);
    communicate(pass, cost::Collective::AllGather, Axis::Tensor, bytes, overlap);
    communicate(pass, cost::Collective::ReduceScatter, Axis::Tensor, bytes, overlap);
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

  void forwardProduct(const cost::MatrixProduct &p, double kernels) {
    push(layer.forward, p, kernels);
  }
  void backwardProduct(const cost::MatrixProduct &p, double kernels) {
    push(layer.backward, p, kernels);
  }

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
  void push(Pass &pass, const cost::MatrixProduct &p, double kernels) const {
    LayerOp op{LayerOp::Product};
    op.product = p;
    op.kernels = kernels;
    if (p.width == cost::Width::Bits8 || p.width == cost::Width::Bits4)
      op.launchCost = layout.software.narrowLaunches;
    pass.push_back(op);
  }
};

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_LAYERBUILDER_H
