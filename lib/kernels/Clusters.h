//===- Clusters.h - which ops become one kernel ---------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CLUSTERS_H
#define CLEAVE_LIB_KERNELS_CLUSTERS_H

#include "lib/kernels/RowOp.h"

#include "mlir/IR/Block.h"

#include <vector>

namespace cleave::kernels {

/// Ops that can run as one row kernel: none of them needs, by way of an op outside, what another
/// one makes.
struct Cluster {
  Domain domain;
  /// In program order.
  llvm::SmallVector<mlir::Operation *, 8> ops;
};

struct ClusterOptions {
  /// Ops, views apart, that a cluster has at least.
  unsigned minOps = 2;
};

/// The clusters of a block of pure straight-line code. Each fusible op joins the clusters that make
/// its operands, where that keeps them free of cycles; these then become one. Deterministic, and
/// linear in the number of ops but for searches in the neighbourhood of a cluster, which are
/// bounded.
std::vector<Cluster> findClusters(mlir::Block &block, const ClusterOptions &options);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CLUSTERS_H
