//===- LayerBuilder.cpp - norms, attention, residuals -------------------------===//

#include "lib/predict/LayerBuilder.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::predict;
using cost::Width;

void LayerBuilder::norm() {
  double size = tokens * hidden / shared;
  double unfused = layout.software.fusesPointwise > 0 ? 1 : 2;
  moved(4 * unfused * size, 10 * size, 1, 2);
  if (layout.software.recomputesNorms > 0)
    repeat(1);
  keep(2 * size);
  // Gated models normalize by the root mean square, without a bias.
  layer.parameters += (layout.dimensions.gated > 0 ? 1 : 2) * hidden;
}

void LayerBuilder::residual() {
  double size = tokens * hidden / shared;
  double fused = layout.dimensions.gated > 0 ? 6 : 7; // a dropout's mask is a byte more
  double unfused = layout.software.fusesPointwise > 0 ? 1 : 1.7;
  moved(fused * unfused * size, 4 * size, 1, 1);
  if (layout.dimensions.gated == 0)
    keep(size);
}

/// Scores, softmax and the product with the values, of the heads of a rank.
void LayerBuilder::attention() {
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
    double mean = (depth + head) / 2;
    op.rate = layout.software.attentionRate * cost::rateOfHeads(mean, /*isBackward=*/false);
    op.kernels = 1;
    layer.forward.push_back(op);
    layer.again.push_back(op);
    op.flops *= 2.5;
    op.rate = layout.software.attentionRate * cost::rateOfHeads(mean, /*isBackward=*/true);
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
