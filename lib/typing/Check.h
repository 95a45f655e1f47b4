//===- Check.h - type checking of distributed programs --------------*- C++ -*-===//
//
// The contract is docs/types.md, the messages are explained in docs/type-checking.md. Needs the
// dialects and sharding rules only, so that the runtime can refuse a program before it runs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_CHECK_H
#define CLEAVE_LIB_TYPING_CHECK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::placement {

/// Whether any argument, result or value of the function has a placement.
bool isTyped(mlir::func::FuncOp function);

/// Checks the typed functions of a verified module: each op's declared placements against the
/// rules, and the signatures of program functions. Functions without placements pass. Emits an
/// error for each violation, up to 20 in a function. Time is linear in the size of the module.
llvm::LogicalResult checkSpmdTypes(mlir::ModuleOp module);

/// Rules 6 and 7: the types that arguments and results of the module's program functions must have
/// by their roles. What has no placement passes.
llvm::LogicalResult checkSignatures(mlir::ModuleOp module);

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_CHECK_H
