//===- Bindings.h - the parts of the module `cleave_native` --------*- C++ -*-===//

#ifndef CLEAVE_PYTHON_NATIVE_BINDINGS_H
#define CLEAVE_PYTHON_NATIVE_BINDINGS_H

#include "python/native/Program.h"

#include "llvm/Support/Error.h"

#include <pybind11/pybind11.h>

#include <stdexcept>

namespace cleave::python {

/// What every failure becomes: `cleave.Error`.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void raise(llvm::Error error) {
  if (error)
    throw Failure(llvm::toString(std::move(error)));
}
template <typename Value> Value take(llvm::Expected<Value> value) {
  if (!value)
    raise(value.takeError());
  return std::move(*value);
}

/// A program's ops: to walk, to look at and to change; and what it costs.
void bindOps(pybind11::module_ &module, pybind11::class_<Program> &program);
/// What a program takes and makes: what one rank has of them.
void bindSignature(pybind11::module_ &module);
/// What a compiled step looks at before it runs: its model, its optimizers, its arguments.
void bindWatch(pybind11::module_ &module);
void bindPattern(pybind11::module_ &module);
/// The ranks of a process group.
void bindRanks(pybind11::module_ &module);

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_BINDINGS_H
