//===- Signatures.h - functions with an argument a line ------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_SIGNATURES_H
#define CLEAVE_TOOLS_CLEAVE_OPT_SIGNATURES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace cleave {

/// MLIR text with the signatures that are longer than a line broken up: one argument or result a
/// line, as the exporter writes them, and returns filled to the width of a page. A program's
/// functions have hundreds of arguments; MLIR prints them as one line, which every message about
/// the function would then repeat.
std::string breakSignatures(llvm::StringRef text);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_SIGNATURES_H
