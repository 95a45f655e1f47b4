//===- OperatorLibrary.cpp - operators that LibTorch does not have --------===//

#include "runtime/environment/OperatorLibrary.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <exception>

#include <dlfcn.h>

using namespace cleave::runtime;

llvm::Error cleave::runtime::loadOperatorLibrary(llvm::StringRef path) {
  // The loader would look for a bare name in its own directories.
  llvm::SmallString<128> file(path);
  if (std::error_code error = llvm::sys::fs::make_absolute(file))
    return makeError("cannot load operator library '{0}': {1}", path, error.message());
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(file, status))
    return makeError("cannot load operator library '{0}': {1}", path, error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return makeError("cannot load operator library '{0}': expected a regular file", path);
  // Operators are registered by initializers, which throw where one is there already.
  try {
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return llvm::Error::success();
  } catch (const std::exception &error) {
    llvm::StringRef reason = error.what();
    return makeError("cannot load operator library '{0}': {1}", path, reason.split('\n').first);
  }
  llvm::StringRef reason = dlerror();
  if (reason.consume_front(file))
    reason.consume_front(": ");
  return makeError(
      "cannot load operator library '{0}': expected a shared library for this LibTorch: {1}", path,
      reason);
}
