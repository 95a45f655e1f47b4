//===- LibraryOperator.h - calls of operators that LibTorch does not have -*- C++ -*-===//
//
// A program trusts schemas: what they do not say, plans of memory do not expect. PyTorch's own
// operators keep to theirs; those of libraries are watched.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_LIBRARYOPERATOR_H
#define CLEAVE_RUNTIME_EXEC_LIBRARYOPERATOR_H

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// Whether the operator is a library's.
bool isOfLibrary(const c10::OperatorHandle &handle);

/// Calls it with the arguments on the stack. Throws where a result has the memory of an argument,
/// and, if `compares`, where an argument is another afterwards, although the schema says neither.
/// Results whose elements share memory are copied.
void callOfLibrary(const c10::OperatorHandle &handle, torch::jit::Stack &stack, bool compares);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_LIBRARYOPERATOR_H
