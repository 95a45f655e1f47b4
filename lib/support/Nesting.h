//===- Nesting.h - how deep brackets of a text are nested -----------*- C++ -*-===//
//
// MLIR's parser and LLVM's JSON parser descend by recursion: text with some ten thousand brackets
// inside each other ends in a stack overflow. Files are checked before a parser sees them.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SUPPORT_NESTING_H
#define CLEAVE_LIB_SUPPORT_NESTING_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::support {

/// Far more than any program or table needs, and far less than a stack holds.
inline constexpr unsigned kMaxNesting = 256;

/// Success where the brackets of `text`, MLIR or JSON, are nested at most `kMaxNesting` deep.
/// Otherwise an error that says where in the file `name`.
llvm::Error checkNesting(llvm::StringRef text, llvm::StringRef name);

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_NESTING_H
