//===- Checks.h - checks that many verifiers share -----------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_CHECKS_H
#define CLEAVE_DIALECTS_ATEN_CHECKS_H

#include "dialects/aten/DTypes.h"
#include "dialects/aten/Shapes.h"

namespace cleave::aten {

/// Result `index` must have this shape and dtype. An encoding (a placement) is not compared: what
/// may stand there is not the business of single-device semantics.
mlir::LogicalResult expectResult(mlir::Operation *op, unsigned index, llvm::ArrayRef<int64_t> shape,
                                 mlir::Type dtype);
/// Result `index` must have the shape and dtype of `like`.
mlir::LogicalResult expectResultLike(mlir::Operation *op, unsigned index, mlir::Value like);
/// The same where `mask` holds at `index`; elsewhere the result is undefined and has type `none`.
mlir::LogicalResult expectMaskedResult(mlir::Operation *op, unsigned index,
                                       llvm::ArrayRef<bool> mask, llvm::ArrayRef<int64_t> shape,
                                       mlir::Type dtype);
/// `mask` must have one element for each result.
mlir::LogicalResult expectMaskLength(mlir::Operation *op, llvm::ArrayRef<bool> mask);

/// The operand `name` must have this shape; a null value (an absent optional) passes.
mlir::LogicalResult expectShape(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape);
/// The operand `name` must have the dtype of the operand `likeName`.
mlir::LogicalResult expectSameDType(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                                    llvm::StringRef likeName, mlir::Value like);
/// The operand `name` must have a floating-point dtype.
mlir::LogicalResult expectFloating(mlir::Operation *op, llvm::StringRef name, mlir::Value value);
/// The operand `name` must have a complex dtype.
mlir::LogicalResult expectComplex(mlir::Operation *op, llvm::StringRef name, mlir::Value value);
/// The operand `name` must have dtype i64 or i32.
mlir::LogicalResult expectIndex(mlir::Operation *op, llvm::StringRef name, mlir::Value value);
/// The operand `name` must have `rank` dimensions.
mlir::LogicalResult expectRank(mlir::Operation *op, llvm::StringRef name, mlir::Value value,
                               int64_t rank);
/// The argument `name`, a dtype, must be a PyTorch dtype.
mlir::LogicalResult expectDType(mlir::Operation *op, mlir::Type dtype,
                                llvm::StringRef name = "dtype");
/// `format`, if given, must be a memory format.
mlir::LogicalResult expectMemoryFormat(mlir::Operation *op, std::optional<llvm::StringRef> format);
/// `reduction` must be 0 (none), 1 (mean) or 2 (sum).
mlir::LogicalResult expectReduction(mlir::Operation *op, int64_t reduction);

/// The dtype of a pointwise op's result.
enum class DTypeRule {
  Promoted, ///< of all operands and of the Scalars that take part
  Floating, ///< the same, with integers computed in f32
  Bool,     ///< always bool
  Self,     ///< that of the first operand
  Real,     ///< promoted, and of complex numbers the type of their parts
};

/// Checks a pointwise op: 1. operands broadcast to the result's shape; 2. its dtype. `scalars`
/// names the Scalar arguments that take part in promotion.
mlir::LogicalResult verifyPointwise(mlir::Operation *op, DTypeRule rule,
                                    llvm::ArrayRef<llvm::StringRef> scalars = {});

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_CHECKS_H
