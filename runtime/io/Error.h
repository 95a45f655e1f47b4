//===- Error.h - errors that reach the user ----------------------*- C++ -*-===//
//
// One way to make an llvm::Error out of a sentence. A message says what was expected, what was
// found, and where.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_ERROR_H
#define CLEAVE_RUNTIME_IO_ERROR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave::runtime {

/// An error with the message `format`, in the syntax of llvm::formatv: `{0}`, `{1}`, ...
template <typename... Ts> llvm::Error makeError(const char *format, Ts &&...values) {
  return llvm::make_error<llvm::StringError>(
      llvm::formatv(/*Validate=*/false, format, std::forward<Ts>(values)...).str(),
      llvm::inconvertibleErrorCode());
}

/// `NAME: message of errno`, for a system call that has just failed on `path`.
llvm::Error makeSystemError(llvm::StringRef path, llvm::StringRef attempted);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_ERROR_H
