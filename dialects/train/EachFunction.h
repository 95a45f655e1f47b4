//===- EachFunction.h - checking functions side by side ----------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_EACHFUNCTION_H
#define CLEAVE_DIALECTS_TRAIN_EACHFUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::train {

/// Whether `check` succeeds for all functions, which it is called for in parallel unless the
/// context forbids it. It is called for all of them in any case, and what it reports comes in their
/// order. It must not change what other functions see.
llvm::LogicalResult checkEach(llvm::ArrayRef<mlir::func::FuncOp> functions,
                              llvm::function_ref<llvm::LogicalResult(mlir::func::FuncOp)> check);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_EACHFUNCTION_H
