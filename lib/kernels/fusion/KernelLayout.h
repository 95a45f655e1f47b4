//===- KernelLayout.h - where a kernel's tensors lie ----------------*- C++ -*-===//
//
// What code generation asks of a kernel's body: over which rows it walks, and where each tensor has
// its numbers of a row.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_FUSION_KERNELLAYOUT_H
#define CLEAVE_LIB_KERNELS_FUSION_KERNELLAYOUT_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace cleave::kernels {

/// What a tensor has of a matrix.
enum class Extent : uint8_t {
  Full,   ///< an element for each row and column
  Row,    ///< one for each row
  Column, ///< one for each column
  Scalar, ///< one in all
};

/// How a contiguous tensor is read or written: element c of row (i0, i1, ...) is at
/// `i0 * rowStrides[0] + i1 * rowStrides[1] + ... + c`.
struct RowLayout {
  Extent extent = Extent::Scalar;
  /// One for each factor of the rows, in elements; 0 for a factor that the tensor lacks.
  llvm::SmallVector<int64_t, 4> rowStrides;
  /// Elements of each row: the kernel's columns, or those of a window of them; 1 for `Row` and
  /// `Scalar`.
  int64_t columns = 1;
  /// A sum over all rows, which only the kernel's caller may use.
  bool isTotal = false;

  bool hasColumns() const { return extent == Extent::Full || extent == Extent::Column; }

  /// Whether it depends on every factor of the rows. A value that does not is recomputed in each
  /// row that needs it; the kernel never stores it, unless it is a total.
  bool hasAllRows = true;
  /// Whether row r begins at element r * columns.
  bool isInOrder = true;
};

/// The rows and columns of a kernel, and its tensors.
struct KernelLayout {
  /// Sizes of the rows' factors, major first, in the order in which a result has them. None: one
  /// row. Factors that all tensors have next to each other are one.
  llvm::SmallVector<int64_t, 4> rowFactors;
  int64_t rows = 1;
  /// Of the widest tensor.
  int64_t columns = 1;
  /// For every operand and result of the body's ops; absent for non-tensors and unused arguments.
  llvm::DenseMap<mlir::Value, RowLayout> values;
};

/// Of a kernel's body; none if its ops do not lie over rows in common (`--fuse-kernels` makes
/// no such kernels, but a kernel may be written by hand).
std::optional<KernelLayout> analyzeKernel(mlir::Block &body);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_FUSION_KERNELLAYOUT_H
