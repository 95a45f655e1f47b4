//===- Partition.h - what a forward saves for its backward -----------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_PARTITION_H
#define CLEAVE_LIB_BACKWARD_PARTITION_H

#include "lib/backward/Recompute.h"

namespace cleave::backward {

enum class PartitionPolicy {
  SaveAll, ///< what the backward uses of the forward; recompute only what tags ask for
  MinCut,  ///< as few bytes as recomputation allows
  Budget   ///< as much as memory allows: see Budget.h
};

/// What crosses from the forward to the backward of a joint graph. Everything else that the
/// backward needs of the forward it recomputes, from saved values and arguments.
struct Partition {
  /// In the order in which the forward makes them; buffers' old values first.
  llvm::SmallVector<mlir::Value> saved;
  /// Those that wait in host memory, and of each the op of the backward before which it is copied
  /// back; null for right before its first use.
  llvm::DenseMap<mlir::Value, mlir::Operation *> offloaded;
};

/// Chooses the saved values by a policy that has no budget; checkpoint tags bind both.
Partition choosePartition(const JointGraph &graph, const RecomputeModel &model,
                          PartitionPolicy policy);

/// The ops of `graph` that its backward runs, in order: those that only it can run in their old
/// order, and before the first that needs it, each op that it recomputes or computes for itself.
llvm::SmallVector<mlir::Operation *> listBackwardOps(const JointGraph &graph,
                                                     const Partition &partition);
/// The ops that the forward runs, in their old order.
llvm::SmallVector<mlir::Operation *> listForwardOps(const JointGraph &graph,
                                                    const Partition &partition);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_PARTITION_H
