//===- Register.h - attaches all derivative rules ------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_AUTODIFF_REGISTER_H
#define CLEAVE_LIB_AUTODIFF_REGISTER_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"

namespace cleave::autodiff {

/// Attaches the derivative rules of every dialect's ops when the dialect is loaded.
void registerAllModels(mlir::DialectRegistry &registry);

/// Fails if a dialect of the registry claims a derivative for an op that got no rule. Tools call it
/// when they start: MLIR itself would take the op for one without a derivative.
llvm::Error checkModels(const mlir::DialectRegistry &registry);

} // namespace cleave::autodiff

#endif // CLEAVE_LIB_AUTODIFF_REGISTER_H
