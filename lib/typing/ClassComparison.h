//===- ClassComparison.h - whether classes of ranks compute alike ---*- C++ -*-===//

#ifndef CLEAVE_LIB_TYPING_CLASSCOMPARISON_H
#define CLEAVE_LIB_TYPING_CLASSCOMPARISON_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::placement {

/// Where the module has functions for classes of ranks (`train.ranks`): whether they are one
/// program, whose types differ in the sizes of shards only. Emits an error otherwise.
llvm::LogicalResult checkRankClasses(mlir::ModuleOp module);

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_CLASSCOMPARISON_H
