//===- Transformer.h - layer classes of transformers, by formula ----*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_TRANSFORMER_H
#define CLEAVE_LIB_PREDICT_TRANSFORMER_H

#include "lib/predict/LayerClass.h"
#include "lib/predict/Layout.h"

namespace cleave::predict {

/// One rank's part of a transformer, and one microbatch.
struct Shape {
  const Layout *layout;
  double microBatch = 1;
  double tensor = 1;
  /// Ranks that the innermost links connect, where there are others; 0: all.
  double near = 0;

  double tokens() const;
};

/// The ops of a GPT layer, in the order in which plans by op list them.
enum class Block {
  Norm1,
  Projection,
  Scores,
  Softmax,
  AttentionDropout,
  Context,
  Output,
  Residual1,
  Norm2,
  Expand,
  Activation,
  Contract,
  Residual2
};
constexpr unsigned numBlocks = 13;

LayerClass getBlock(const Shape &shape, Block block);
/// A layer of attention and a feed-forward network, or of experts.
LayerClass getDenseLayer(const Shape &shape, double ffn);
LayerClass getExpertLayer(const Shape &shape);
/// The table of the vocabulary, looked up in.
LayerClass getEmbedding(const Shape &shape);
/// What prepares a microbatch.
LayerClass getBatch(const Shape &shape);
/// The last normalization, the product with the vocabulary, and the loss.
LayerClass getHead(const Shape &shape);
/// What joins a token's embedding to a layer's output, to predict one token more: the embedding,
/// two norms and a product.
LayerClass getJoin(const Shape &shape);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_TRANSFORMER_H
