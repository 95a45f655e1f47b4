//===- RowOp.h - ops that work row by row ---------------------------*- C++ -*-===//
//
// A *row kernel* walks over rows of a matrix and computes, for each, all that its ops need of it
// while the row is in the cache: pointwise ops, broadcasts, reductions along rows (softmax, norms)
// and sums down the columns (gradients of their weights). Any tensor is such a matrix: the last
// dimension makes the columns, all others the rows. What corresponds to what is told by the op's
// sharding rule.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_ROWOP_H
#define CLEAVE_LIB_KERNELS_ROWOP_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace cleave::kernels {

/// What a tensor has of a matrix.
enum class Extent : uint8_t {
  Full,   ///< an element for each row and column
  Row,    ///< one for each row
  Column, ///< one for each column
  Scalar, ///< one in all
  None,   ///< it is no tensor, or does not exist
};

/// The matrix that a kernel walks over.
struct Domain {
  int64_t rows = 1;
  int64_t columns = 1;
  bool operator==(const Domain &) const = default;
};

/// An op as part of a row kernel.
struct RowOp {
  Domain domain;
  llvm::SmallVector<Extent, 4> operands;
  llvm::SmallVector<Extent, 2> results;
  /// Only gives a tensor another shape: costs nothing outside of a kernel.
  bool isView = false;
};

/// Whether a kernel may contain ops of this name at all.
bool isFusible(mlir::Operation *op);

/// How `op` lies over the matrix of its widest tensor; none for an op that row kernels do not
/// have, such as one that exchanges dimensions.
std::optional<RowOp> analyzeRowOp(mlir::Operation *op);

/// How `op` lies over `domain`, where its own may also be a row's worth or a column's: an op on one
/// number for each row is Row there.
std::optional<RowOp> analyzeRowOp(mlir::Operation *op, Domain domain);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_ROWOP_H
