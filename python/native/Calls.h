//===- Calls.h - calls from Python into the runtime -----------------*- C++ -*-===//

#ifndef CLEAVE_PYTHON_NATIVE_CALLS_H
#define CLEAVE_PYTHON_NATIVE_CALLS_H

#include "python/native/Bindings.h"
#include "runtime/aten/Facade.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cleave::python {

/// Without the GIL, and as outside of what the caller's thread has set: autocast and Python's modes
/// are not for a program's ops.
template <typename Body> llvm::Error runFreely(Body body) {
  pybind11::gil_scoped_release release;
  c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
  c10::impl::ExcludeDispatchKeyGuard noModes(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = runtime::guarded([&] { failure = body(); });
  return llvm::joinErrors(std::move(failure), std::move(thrown));
}

/// Raises what Python's signal handlers have raised meanwhile, or else the error.
inline void raiseInterruptible(llvm::Error error) {
  if (!error)
    return;
  if (PyErr_Occurred()) {
    llvm::consumeError(std::move(error));
    throw pybind11::error_already_set();
  }
  raise(std::move(error));
}

/// Lets Python's signal handlers run, that of Ctrl-C above all. True where one has raised: kept for
/// raiseInterruptible.
inline bool isInterrupted() {
  pybind11::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_CALLS_H
