//===- Output.h - files that are written whole or not at all --------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_OUTPUT_H
#define CLEAVE_TOOLS_CLEAVE_SIM_OUTPUT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::sim {

/// Writes a file through `print`; "-" is the standard output. What cannot be written whole is
/// removed.
llvm::Error writeFile(llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> print);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_OUTPUT_H
