//===- Strides.h - the strides that kernels will give a value -----*- C++ -*-===//
//
// Strides are not in types. The backward needs them twice: a reshape is a view or a copy, and the
// gradient of a product is computed in the order that suits its operand's layout, which decides its
// bits. The inference knows what PyTorch's kernels do; where it does not know, it says so.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_ATEN_STRIDES_H
#define CLEAVE_LIB_ATEN_STRIDES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace cleave::aten {

using Strides = llvm::SmallVector<int64_t, 6>;

class StrideInference {
public:
  /// The strides of `value`, in elements, or nothing if they are not known. Arguments of a
  /// function are contiguous.
  std::optional<Strides> get(mlir::Value value);
  /// Those of a new tensor like `value`, as `empty_like` makes it: without gaps or overlaps.
  std::optional<Strides> getDense(mlir::Value value);

  /// Whether `value` can be viewed in `shape` without a copy, for certain.
  bool isViewable(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Whether a matrix is stored by columns, for certain.
  bool isColumnMajor(mlir::Value matrix);

  /// Whether the op's kernel gives contiguous results whatever its operands are.
  static bool isAlwaysContiguous(mlir::Operation *op);
  /// Whether the op's results come from other ranks, into buffers of their own.
  static bool isReceived(mlir::Operation *op);

private:
  std::optional<Strides> infer(mlir::Value value);

  llvm::DenseMap<mlir::Value, std::optional<Strides>> known;
};

} // namespace cleave::aten

#endif // CLEAVE_LIB_ATEN_STRIDES_H
