//===- Run.h - passes that run on a program in memory ---------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_RUN_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_RUN_H

#include "tools/cleave-plan/Commands.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

namespace cleave::plan {

/// The first error of what runs while it lives. Others, and remarks, are dropped.
class Diagnostics {
public:
  explicit Diagnostics(mlir::MLIRContext *context);

  llvm::Error makeError(llvm::StringRef otherwise) const;

private:
  std::string message;
  mlir::ScopedDiagnosticHandler handler;
};

/// Fails with the first error of a pass, or of the verifier on what they make.
llvm::Error runPasses(mlir::ModuleOp module, llvm::ArrayRef<PassCall> passes);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_RUN_H
