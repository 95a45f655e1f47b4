//===- Recompute.h - what a backward may recompute ---------------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_RECOMPUTE_H
#define CLEAVE_LIB_BACKWARD_RECOMPUTE_H

#include "lib/backward/JointGraph.h"

namespace cleave::backward {

/// Which ops the backward may recompute without being asked to by a checkpoint tag.
enum class RecomputeLevel {
  Views,   ///< what takes no time: views, and factories of constants
  Cheap,   ///< and what takes little for its bytes: pointwise ops, conversions, copies
  Gathers, ///< and gathers from other ranks: what is saved is the rank's shard
  All      ///< everything, matrix products included
};

/// Whether computing `op` again is as cheap as `level` asks.
bool isRecomputable(mlir::Operation *op, RecomputeLevel level);

/// What checkpoint tags ask of a value.
enum class CheckpointChoice { None, Save, Recompute };

/// Answers, for the forward's ops of one function, what may and what must be recomputed.
/// Recomputation changes no bits: all ops are pure, and random ones draw the same numbers again
/// from the same seed, offset and position.
class RecomputeModel {
public:
  /// Fails if a tag asks to recompute what cannot be, with an error on the op.
  static llvm::FailureOr<RecomputeModel> create(const JointGraph &graph, RecomputeLevel level);

  /// What the tags say of the results of `op`. Values that enter a checkpointed region from another
  /// one are saved: a region is recomputed from what enters it.
  CheckpointChoice getPolicy(mlir::Value value) const;
  /// Whether the backward may compute the op again; tags are asked first.
  bool isRecomputable(mlir::Operation *op) const { return recomputable.contains(op); }
  /// The value whose memory `value` shares; itself where it has its own.
  mlir::Value getStorage(mlir::Value value) const;

private:
  RecomputeModel(const JointGraph &graph, RecomputeLevel level) : graph(graph), level(level) {}
  llvm::LogicalResult readTags();
  void classify();
  void keepSkips();

  const JointGraph &graph;
  RecomputeLevel level;
  llvm::DenseMap<mlir::Operation *, CheckpointChoice> tags;
  llvm::DenseSet<mlir::Value> boundaries;
  llvm::DenseSet<mlir::Operation *> recomputable;
  llvm::DenseMap<mlir::Value, mlir::Value> storage;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_RECOMPUTE_H
