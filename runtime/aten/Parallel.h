//===- Parallel.h - work for ATen's threads -------------------------*- C++ -*-===//
//
// LibTorch's own parallel loop is a template for compilers with OpenMP; this is a function, for any
// compiler. The threads are those that its operators use.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_PARALLEL_H
#define CLEAVE_RUNTIME_ATEN_PARALLEL_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>

namespace cleave::runtime {

/// How many threads `parallelFor` uses at most.
int countWorkers();

/// Calls `body(begin, end, worker)` for ranges that together are [0, count), each on a thread of
/// its own; `worker` is below `countWorkers()`. With one thread, or on one of several already, that
/// is a plain call. `body` must not throw.
void parallelFor(int64_t count, llvm::function_ref<void(int64_t, int64_t, int)> body);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_PARALLEL_H
