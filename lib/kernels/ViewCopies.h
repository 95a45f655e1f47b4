//===- ViewCopies.h - a view for every use --------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_VIEWCOPIES_H
#define CLEAVE_LIB_KERNELS_VIEWCOPIES_H

#include "lib/kernels/Clusters.h"

#include "llvm/ADT/MapVector.h"

#include <vector>

namespace cleave::kernels {

/// Copies of a block's views. A view costs nothing, so that ops that share one need not become one
/// kernel, nor wait for each other: each use gets its own.
class ViewCopies {
public:
  /// Copies views of `block` that several ops use.
  explicit ViewCopies(mlir::Block &block);

  /// Makes copies one again that are in the same cluster, or in none.
  void join(std::vector<Cluster> &clusters);

private:
  /// The first, and copies of it.
  llvm::MapVector<mlir::Operation *, llvm::SmallVector<mlir::Operation *, 4>> copies;
};

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_VIEWCOPIES_H
