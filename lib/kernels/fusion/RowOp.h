//===- RowOp.h - ops that work row by row ---------------------------*- C++ -*-===//
//
// A *row kernel* walks over rows of a matrix and computes, for each, all that its ops need of it
// while the row is in the cache: pointwise ops, broadcasts, reductions along rows (softmax, norms),
// windows of rows (halves of a rotary embedding) and sums over all rows (gradients of weights,
// losses). The last dimension of a tensor makes the columns, all others the rows.
//
// The rows of a kernel are the product of *factors*. Each tensor has some of them, in an order of
// its own: of queries `[batch, head, token | channel]` a rotary table `[token | channel]` has but
// one, and a transposed view all of them, exchanged. What corresponds to what is told by the op's
// sharding rule.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_FUSION_ROWOP_H
#define CLEAVE_LIB_KERNELS_FUSION_ROWOP_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace cleave::kernels {

/// One tensor of an op, as elements in order: rows, then the columns of each.
struct RowTensor {
  /// False for an operand that is absent, or is not a tensor.
  bool exists = false;
  /// Factors of the rows, as indices into `RowOp::factors`, major first.
  llvm::SmallVector<unsigned, 4> rows;
  /// Elements of each row, at least 2; 0 where there is one number for each row.
  int64_t columns = 0;
  /// A sum over all rows: there only when the last one is done.
  bool isTotal = false;
};

/// An op as part of a row kernel, by itself.
struct RowOp {
  /// Sizes, each at least 2.
  llvm::SmallVector<int64_t, 6> factors;
  llvm::SmallVector<RowTensor, 4> operands;
  llvm::SmallVector<RowTensor, 2> results;
  /// The factor that makes the columns, if the kernel has them there; in a kernel with other
  /// columns it counts to the rows, as all tensors here say. None: the tensors say what is.
  std::optional<unsigned> column;

  /// With `column` as the columns; none if a tensor has them other than last.
  std::optional<RowOp> withColumns() const;
};

/// About how many pointwise ops an op with rows stands for: 0 for views, which cost nothing outside
/// of a kernel.
unsigned getWeight(mlir::Operation *op);
bool isView(mlir::Operation *op);
/// Whether a view leaves elements in their order. Others exchange rows, repeat them or take windows
/// of them: that costs a copy where a kernel needs contiguous memory.
bool keepsOrder(mlir::Operation *op);

/// Whether a kernel that needs the result does as well to take the operand: it is a view of it, or
/// the same numbers in a wider type.
bool isRepeatable(mlir::Operation *op);

/// How `op` lies over rows and columns; none for an op that row kernels do not have, such as one
/// that exchanges rows and columns.
std::optional<RowOp> analyzeRowOp(mlir::Operation *op);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_FUSION_ROWOP_H
