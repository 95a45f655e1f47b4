//===- DTypes.h - PyTorch's rules for element types -----------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_DTYPES_H
#define CLEAVE_DIALECTS_ATEN_DTYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ValueRange.h"

namespace cleave::aten {

inline bool isBool(mlir::Type dtype) {
  return dtype.isSignlessInteger(1);
}
inline bool isFloating(mlir::Type dtype) {
  return mlir::isa<mlir::FloatType>(dtype);
}

inline bool isComplex(mlir::Type dtype) {
  return mlir::isa<mlir::ComplexType>(dtype);
}
/// Whether values of this dtype have gradients: floating-point and complex numbers.
inline bool isDifferentiable(mlir::Type dtype) {
  return isFloating(dtype) || isComplex(dtype);
}
/// The dtype of the parts of a complex number; others as they are.
mlir::Type toReal(mlir::Type dtype);
/// The dtype of complex numbers with parts of the floating-point type `dtype`.
mlir::Type toComplex(mlir::Type dtype);

/// The dtype that holds both, as `torch.promote_types` has it: `ui8` with `i8` gives `i16`, an
/// integer with a float gives the float, `f16` with `bf16` gives `f32`.
mlir::Type promoteTypes(mlir::Type a, mlir::Type b);

/// The dtype in which an operator computes on `tensors` and Python numbers (`scalars`, null where
/// absent), as `torch.result_type` has it: a 0-d tensor, and still more a number, counts only
/// where its category (bool, integer, float, complex) is above that of the others.
mlir::Type resultType(mlir::ValueRange tensors, llvm::ArrayRef<mlir::Attribute> scalars = {});

/// `dtype` itself if it is a float or complex, else PyTorch's default dtype `f32`.
mlir::Type toFloating(mlir::Type dtype);

/// `i64` for integers and bool, in which PyTorch sums them; else `dtype`.
mlir::Type sumType(mlir::Type dtype);

/// The dtype of a tensor that is made from a number alone: `f32`, `i64`, bool or `complex<f32>`.
mlir::Type typeOfScalar(mlir::Attribute scalar);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_DTYPES_H
