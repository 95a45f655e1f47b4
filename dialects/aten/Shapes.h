//===- Shapes.h - shapes that ATen's operators infer ----------------*- C++ -*-===//
//
// Each rule reports a violation at the op and returns failure, so that a verifier reads as its
// list of constraints.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_SHAPES_H
#define CLEAVE_DIALECTS_ATEN_SHAPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace cleave::aten {

using Shape = llvm::SmallVector<int64_t>;

/// The type of a value that the op's record declares as a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return tensorType(value).getShape();
}
inline mlir::Type dtypeOf(mlir::Value value) {
  return tensorType(value).getElementType();
}
inline int64_t rankOf(mlir::Value value) {
  return tensorType(value).getRank();
}

/// The shape that `operands` broadcast to, aligned at the last dimension.
mlir::FailureOr<Shape> broadcastShapes(mlir::Operation *op, mlir::ValueRange operands);
/// The same for shapes; nothing is reported.
mlir::FailureOr<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
/// Whether a tensor of shape `from` broadcasts to exactly `to`.
bool broadcastsTo(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// `dim` counted from the front; a 0-d tensor counts as having one dimension.
mlir::FailureOr<int64_t> wrapDim(mlir::Operation *op, int64_t dim, int64_t rank,
                                 llvm::StringRef name = "dim");
/// The same for a list, in which no dimension may occur twice.
mlir::FailureOr<Shape> wrapDims(mlir::Operation *op, llvm::ArrayRef<int64_t> dims, int64_t rank,
                                llvm::StringRef name = "dim");

/// `shape` reduced over `dims` (wrapped; none means all): dropped, or kept with size 1.
Shape reduceShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims, bool keepDims);

/// `size` with its one possible -1 replaced by what `elements` leave for it.
mlir::FailureOr<Shape> resolveSize(mlir::Operation *op, llvm::ArrayRef<int64_t> size,
                                   int64_t elements);

/// The number of elements of `start:end:step` in a dimension of `size`, with Python's clamping.
int64_t sliceLength(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end,
                    int64_t step);

/// A list argument `int[N]` for `count` dimensions: one element stands for all.
mlir::FailureOr<Shape> spreadList(mlir::Operation *op, llvm::ArrayRef<int64_t> list, int64_t count,
                                  llvm::StringRef name);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_SHAPES_H
