//===- Clusters.h - which ops become one kernel ---------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_FUSION_CLUSTERS_H
#define CLEAVE_LIB_KERNELS_FUSION_CLUSTERS_H

#include "lib/kernels/fusion/RowOp.h"

#include "mlir/IR/Block.h"

#include <vector>

namespace cleave::kernels {

/// Ops that can run as one row kernel: none of them needs, via an op outside, what another
/// one makes.
struct Cluster {
  /// In program order.
  llvm::SmallVector<mlir::Operation *, 8> ops;
};

struct ClusterOptions {
  /// Pointwise ops that a cluster has at least; an op of several steps, as a norm, counts as two.
  unsigned minOps = 2;
};

/// The clusters of a block of pure straight-line code, of ops that have rows and, as `hasFormula`
/// says, can be computed by kernels. Each joins the clusters that make
/// its operands, or read them too, where that keeps them free of cycles; these then become one.
/// Deterministic, and linear in the number of ops but for searches in the neighbourhood of a
/// cluster, which are bounded.
std::vector<Cluster> findClusters(mlir::Block &block,
                                  llvm::function_ref<bool(mlir::Operation *)> hasFormula);

/// Takes views out of the clusters that nothing inside needs: they are as free outside.
void trimResults(std::vector<Cluster> &clusters);

/// Takes views of operands out of the clusters, unless rows change places where a kernel would read
/// them; and drops clusters that are too small.
void trimOperands(std::vector<Cluster> &clusters, const ClusterOptions &options);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_FUSION_CLUSTERS_H
