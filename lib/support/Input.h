//===- Input.h - what is asked of a program's file before it is parsed -*- C++ -*-===//

#ifndef CLEAVE_LIB_SUPPORT_INPUT_H
#define CLEAVE_LIB_SUPPORT_INPUT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace cleave::support {

/// Bytecode needs the right digest (Digest.h), text brackets that are not nested too deep
/// (Nesting.h). The error says what is wrong with the file `name`.
llvm::Error checkInput(llvm::StringRef data, llvm::StringRef name);

/// The program's file, checked and where MLIR's reader can take it (Buffer.h). The error begins
/// with the path.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readInput(llvm::StringRef path);

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_INPUT_H
