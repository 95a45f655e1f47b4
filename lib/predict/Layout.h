//===- Layout.h - a training run as its authors describe it ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_PREDICT_LAYOUT_H
#define CLEAVE_LIB_PREDICT_LAYOUT_H

#include "lib/cost/OpTime.h"
#include "lib/predict/Defaults.h"
#include "lib/predict/Table.h"

namespace cleave::predict {

/// What of the activations is recomputed in the backward.
enum class Recompute {
  None,
  Attention, // scores, softmax and what follows up to the product with the values
  Selective, // all but every second product, and fused attention
  Full,      // whole layers
  Unknown,   // as little as fits in memory
};

enum class AttentionKind { Unfused, FusedSoftmax, Flash };

/// A model, where it runs, and how it is parted.
struct Layout {
  std::string model, source, gpuType;
  int64_t layers, hidden, ffn, heads, kvHeads, vocabulary, sequence;
  int64_t experts = 0, expertsPerToken = 0;
  int64_t globalBatch, microBatch, microbatches; // microBatch 0: unknown
  int64_t gpus, gpusPerNode;
  int64_t data, tensor, pipeline, chunks, context, expert; // chunks 0: unknown
  /// Which of optimizer state, gradients and parameters are sharded (ZeRO's stages), over how many.
  int64_t shardStage = 0, shardRanks = 1;
  bool sequenceParallel = false;
  bool interleaved = false;
  Recompute recompute = Recompute::Unknown;
  double recomputedLayers = 0; // part of them, of Full and Unknown
  AttentionKind attention = AttentionKind::Flash;
  cost::Width width = cost::Width::Bits16;
  bool lowRankTuning = false; // weights are frozen: no gradients of them
  std::string plan;
  int64_t measuredRanks = 0; // the first so many report their memory; 0: all
  // Of memory: what the allocator holds, instead of what tensors take; layers alone.
  bool reportsReserved = false, reportsLayers = false;

  Model dimensions;
  Software software;
  /// Assumptions that the row left to us.
  std::vector<std::string> notes;

  int64_t headDimension() const {
    return dimensions.headDimension > 0 ? int64_t(dimensions.headDimension) : hidden / heads;
  }
};

/// The columns that `readLayout` needs; a table without one of them is refused.
llvm::ArrayRef<llvm::StringRef> requiredColumns();

/// Reads a row, and fills in what its source leaves open. Errors start with the column. Columns
/// with measurements (times, throughput, memory) are never read.
llvm::Expected<Layout> readLayout(const Row &row, const Defaults &defaults);

} // namespace cleave::predict

#endif // CLEAVE_LIB_PREDICT_LAYOUT_H
