//===- Differentiate.h - reverse-mode derivative of a program ------*- C++ -*-===//

#ifndef CLEAVE_LIB_AUTODIFF_DIFFERENTIATE_H
#define CLEAVE_LIB_AUTODIFF_DIFFERENTIATE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace cleave::autodiff {

struct DifferentiateOptions {
  /// Names of inputs whose gradients are results too.
  llvm::SmallVector<std::string> inputs;
};

struct DifferentiateStatistics {
  unsigned gradients = 0; ///< gradient results
  unsigned ops = 0;       ///< ops of the backward
};

/// Adds the gradients of the loss to the forward-only microbatch function: the argument `seed`, a
/// `gradient` result for every parameter that is not frozen and on which the loss depends, each
/// through a `train.accumulate` if there is an `update` (may be null) to take them. Emits an error
/// and fails if the function has no loss, has gradients already, or a gradient must flow through
/// an op without a derivative.
llvm::FailureOr<DifferentiateStatistics> differentiate(mlir::func::FuncOp microbatch,
                                                       mlir::func::FuncOp update,
                                                       const DifferentiateOptions &options);

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_DIFFERENTIATE_H
