//===- OperatorLibrary.cpp - operators that LibTorch does not have --------===//

#include "runtime/environment/OperatorLibrary.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <exception>

#include <dlfcn.h>
#include <unistd.h>

using namespace cleave::runtime;

/// The library that is being loaded.
static std::string loading;

static llvm::Error refuse(llvm::StringRef path, llvm::StringRef reason) {
  return makeError("cannot load operator library '{0}': {1}", path, reason);
}

/// Operators are registered by initializers, which throw where one is there already; and no
/// exception gets through the loader.
[[noreturn]] static void endAfterThrow() {
  std::string reason = "it gave up";
  try {
    if (std::exception_ptr thrown = std::current_exception())
      std::rethrow_exception(thrown);
  } catch (const std::exception &error) {
    reason = llvm::StringRef(error.what()).split('\n').first.str();
  } catch (...) {
  }
  llvm::errs() << "error: " << llvm::toString(refuse(loading, reason)) << "\n";
  ::_exit(1);
}

llvm::Error cleave::runtime::loadOperatorLibrary(llvm::StringRef path) {
  // The loader would look for a bare name in its own directories.
  llvm::SmallString<128> file(path);
  if (std::error_code error = llvm::sys::fs::make_absolute(file))
    return refuse(path, error.message());
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(file, status))
    return refuse(path, error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return refuse(path, "expected a regular file");
  loading = path.str();
  std::terminate_handler before = std::set_terminate(endAfterThrow);
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::set_terminate(before);
  if (library)
    return llvm::Error::success();
  llvm::StringRef reason = dlerror();
  if (reason.consume_front(file))
    reason.consume_front(": ");
  return refuse(path, ("expected a shared library for this LibTorch: " + reason).str());
}
