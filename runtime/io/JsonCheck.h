//===- JsonCheck.h - what llvm::json lets pass -------------------*- C++ -*-===//
//
// llvm::json parses recursively without a limit and keeps the last of several equal keys. Files
// from elsewhere are checked for both before they are parsed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_JSONCHECK_H
#define CLEAVE_RUNTIME_IO_JSONCHECK_H

#include "runtime/io/Error.h"
#include "llvm/Support/JSON.h"

namespace cleave::runtime {

/// Parses `text`, refusing nesting deeper than `maxDepth` and objects with a key twice. Messages
/// do not name the file.
llvm::Expected<llvm::json::Value> parseJsonStrictly(llvm::StringRef text, unsigned maxDepth);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_JSONCHECK_H
