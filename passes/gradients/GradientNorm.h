//===- GradientNorm.h - the norm of many gradients, and scaling by it -*- C++ -*-===//
//
// What torch.nn.utils.clip_grad_norm_ does, op by op the same, so that on one rank the bits are the
// same. A gradient that is sharded over mesh axes adds its squares over them first.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PASSES_GRADIENTS_GRADIENTNORM_H
#define CLEAVE_PASSES_GRADIENTS_GRADIENTNORM_H

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cleave::gradients {

/// A gradient as the optimizer takes it: by one op of `train`, or by ops of a traced step.
struct TakenGradient {
  mlir::Value value;
  llvm::SmallVector<mlir::OpOperand *, 1> uses;
  /// The parameter that it updates; null where that is not said.
  mlir::StringAttr parameter;

  /// The first op that takes it.
  mlir::Operation *getFirstUser() const;
};

/// The gradients that `part`'s update takes. An error where one has no norm
/// yet: it is partial or varying, or scattered (there or in the reduce function) without a
/// placement that says so.
llvm::FailureOr<llvm::SmallVector<TakenGradient>>
findGradients(const train::ProgramFunctions &part);

llvm::SmallVector<mlir::Value> getValues(llvm::ArrayRef<TakenGradient> gradients);

/// `value` in another element type.
mlir::Value toElement(mlir::ImplicitLocOpBuilder &b, mlir::Value value, mlir::Type element);

/// The type of a scalar made from all of `gradients`: their widest element type (as torch.stack
/// promotes), and I on the axes where all of them are I, else R.
mlir::RankedTensorType getNormType(llvm::ArrayRef<mlir::Value> gradients);

/// The 2-norm of `gradients` together, of `getNormType`. On an axis that shards a gradient its
/// ranks add their squares.
mlir::Value makeNorm(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<mlir::Value> gradients);

/// A scalar of f32 that is 0 if all elements of all `gradients` are finite, else NaN; I and R as in
/// `getNormType`.
mlir::Value makeFiniteFlag(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<mlir::Value> gradients);

/// `scalar` in the type that all stages agree on: another stage's may be wider, or R where this
/// one's is I.
mlir::Value convertScalar(mlir::ImplicitLocOpBuilder &b, mlir::Value scalar,
                          mlir::RankedTensorType type);

/// Each of `gradients` times a scalar.
llvm::SmallVector<mlir::Value> scaleBy(mlir::ImplicitLocOpBuilder &b,
                                       llvm::ArrayRef<mlir::Value> gradients, mlir::Value factor);

/// Multiplies each gradient by min(1, maxNorm / (norm + 1e-6)), for all its uses.
void scaleToNorm(mlir::ImplicitLocOpBuilder &b, llvm::ArrayRef<TakenGradient> gradients,
                 mlir::Value norm, double maxNorm);

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_GRADIENTNORM_H
