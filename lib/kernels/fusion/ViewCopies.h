//===- ViewCopies.h - a view for every use --------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_FUSION_VIEWCOPIES_H
#define CLEAVE_LIB_KERNELS_FUSION_VIEWCOPIES_H

#include "lib/kernels/fusion/Clusters.h"

#include "llvm/ADT/MapVector.h"

#include <vector>

namespace cleave::kernels {

/// Copies of a block's views and other ops that cost nothing if they are used (`isRepeatable`).
/// Ops that share one need not become one kernel, nor wait for each other, and a kernel need not
/// give it to others: each use gets its own.
class ViewCopies {
public:
  /// Copies what several ops of `block` use.
  explicit ViewCopies(mlir::Block &block);

  /// Makes copies one again that are in the same cluster, or in none.
  void join(std::vector<Cluster> &clusters);

private:
  /// The first, and copies of it.
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<mlir::Operation *, 4>> copies;
};

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_FUSION_VIEWCOPIES_H
