//===- Activity.h - which values carry a gradient ------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_AUTODIFF_ACTIVITY_H
#define CLEAVE_LIB_AUTODIFF_ACTIVITY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::autodiff {

/// Whether values of this type can have a gradient: floating-point tensors, and futures of them.
bool isDifferentiable(mlir::Type type);

/// The values that depend differentiably on `sources`, the sources included. An op without a
/// derivative counts as depending on its operands: whether that matters shows when a gradient
/// arrives.
llvm::DenseSet<mlir::Value> findVaried(mlir::func::FuncOp function,
                                       llvm::ArrayRef<mlir::BlockArgument> sources);

/// A parameter or input from which `value` gets its gradient, for diagnostics.
mlir::BlockArgument findSource(mlir::Value value, const llvm::DenseSet<mlir::Value> &varied);

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_ACTIVITY_H
