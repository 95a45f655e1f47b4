// Errors that reach the user: one message, which says what was expected, what was found, and where.

#ifndef CLEAVE_LIB_SUPPORT_ERROR_H
#define CLEAVE_LIB_SUPPORT_ERROR_H

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

/// An error with the message `format`, in the syntax of llvm::formatv: `{0}`, `{1}`, ...
template <typename... Args> llvm::Error makeError(const char *format, Args &&...args) {
  return llvm::createStringError(
      llvm::inconvertibleErrorCode(), "%s",
      llvm::formatv(/*Validate=*/false, format, std::forward<Args>(args)...).str().c_str());
}

/// An error with this message.
inline llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace cleave

#endif // CLEAVE_LIB_SUPPORT_ERROR_H
