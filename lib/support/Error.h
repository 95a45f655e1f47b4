// Errors that reach the user: one message, formatted as llvm::formatv does.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

template <typename... Args> llvm::Error makeError(const char *format, Args &&...args) {
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(), "%s",
      llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...).str().c_str());
}

} // namespace cleave
