//===- ReadProgram.h - the program in a file ------------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_READPROGRAM_H
#define CLEAVE_TOOLS_READPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace cleave {

/// The program in the file, or in standard input where `path` is "-", checked before it is parsed
/// (lib/support/Input.h). The error says why the file is not read. A program that does not parse or
/// verify is null, and standard error says where.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> readProgram(llvm::StringRef path,
                                                              mlir::MLIRContext &context);

} // namespace cleave

#endif // CLEAVE_TOOLS_READPROGRAM_H
