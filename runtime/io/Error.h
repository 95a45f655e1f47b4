//===- Error.h - errors that reach the user ----------------------*- C++ -*-===//
//
// `makeError` (lib/support/Error.h), and the same for what the system reports.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_ERROR_H
#define CLEAVE_RUNTIME_IO_ERROR_H

#include "lib/support/Error.h"

namespace cleave::runtime {

using cleave::makeError;

/// `NAME: message of errno`, for a system call that has just failed on `path`.
llvm::Error makeSystemError(llvm::StringRef path, llvm::StringRef attempted);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_ERROR_H
