//===- EmitFunction.h - scalar functions as arith and math ops ------*- C++ -*-===//
//
// The functions of row programs on numbers or on vectors of numbers. VectorMath.h replaces `math`
// ops on vectors; GPU code has its own, on scalars (lib/kernels/gpu/Scalar.h).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_CPU_EMITFUNCTION_H
#define CLEAVE_LIB_KERNELS_CPU_EMITFUNCTION_H

#include "lib/kernels/program/RowProgram.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cleave::kernels {

/// The type of a number computed in `type`; a vector of `lanes` of them if that is not 0.
mlir::Type getValueType(mlir::MLIRContext *context, ComputeType type, int64_t lanes = 0);

/// The element type of a tensor as it lies in memory, in a context of its own: like `dtype`, but
/// booleans are bytes.
mlir::Type getMemoryType(mlir::MLIRContext *context, mlir::Type dtype);

/// What was loaded, of `dtype`'s memory type or a vector of these, as it is computed with.
mlir::Value emitFromMemory(mlir::ImplicitLocOpBuilder &b, mlir::Value loaded, mlir::Type dtype);
/// The opposite; rounds to the nearest.
mlir::Value emitToMemory(mlir::ImplicitLocOpBuilder &b, mlir::Value value, mlir::Type dtype);

/// A number, or a vector with it in all `lanes`.
mlir::Value emitConstant(mlir::ImplicitLocOpBuilder &b, const Node &node, int64_t lanes = 0);

/// The Map node `node` of values of its operands. Contraction to fused multiply-adds is allowed.
mlir::Value emitFunction(mlir::ImplicitLocOpBuilder &b, const Node &node,
                         llvm::ArrayRef<mlir::Value> operands);

/// `a` and `b` joined: of numbers or of vectors, lane by lane.
mlir::Value emitJoin(mlir::ImplicitLocOpBuilder &b, RowReduction reduction, mlir::Value a,
                     mlir::Value other);
/// What joined with any other number gives that number.
mlir::Value emitIdentity(mlir::ImplicitLocOpBuilder &b, RowReduction reduction, ComputeType type,
                         int64_t lanes = 0);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_EMITFUNCTION_H
