//===- OutputMask.h - ops that compute their results one by one ----*- C++ -*-===//
//
// Operators such as `convolution_backward` have an argument `output_mask` that says which of their
// results to compute. Such an op can be had in parts: one instance for the gradient of the input,
// another for those of weight and bias.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_OUTPUTMASK_H
#define CLEAVE_LIB_BACKWARD_OUTPUTMASK_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace cleave::backward {

/// The `output_mask` of a typed op or an `aten.call`, with one element for each result; null for an
/// op that has none, whose results are computed together.
mlir::DenseBoolArrayAttr getOutputMask(mlir::Operation *op);

/// Clones `op` with operands from `mapping`, which gets those results that `wanted` accepts. With
/// an output mask only these are computed, and the others have type none.
mlir::Operation *cloneInPart(mlir::OpBuilder &b, mlir::Operation *op, mlir::IRMapping &mapping,
                             llvm::function_ref<bool(mlir::Value)> wanted);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_OUTPUTMASK_H
