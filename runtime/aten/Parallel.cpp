//===- Parallel.cpp - work for ATen's threads -------------------------------===//
//
// What at::parallel_for does, on the OpenMP library that the torch wheel brings along. Its entry
// points are called by hand: -fopenmp would compile for the compiler's own OpenMP, which for clang
// is another library with threads of its own.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/Parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

// Of libgomp: GOMP_parallel is what GCC compiles `#pragma omp parallel` to, and part of its ABI.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *data, unsigned numThreads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace {

struct Work {
  int64_t count;
  llvm::function_ref<void(int64_t, int64_t, int)> body;
};

} // namespace

/// One thread's part: contiguous, and of the same length for all threads but the last.
static void runPart(void *data) {
  auto &[count, body] = *static_cast<Work *>(data);
  int64_t threads = std::min<int64_t>(omp_get_num_threads(), count);
  int64_t length = (count + threads - 1) / threads;
  int worker = omp_get_thread_num();
  int64_t begin = worker * length;
  if (begin >= count)
    return;
  at::internal::ThreadIdGuard id(worker);
  c10::ParallelGuard inside(true);
  body(begin, std::min(count, begin + length), worker);
}

int cleave::runtime::countWorkers() {
  return at::get_num_threads();
}

void cleave::runtime::parallelFor(int64_t count,
                                  llvm::function_ref<void(int64_t, int64_t, int)> body) {
  if (count <= 0)
    return;
  at::internal::lazy_init_num_threads();
  Work work{count, body};
  if (count > 1 && !at::in_parallel_region() && at::get_num_threads() > 1)
    return GOMP_parallel(runPart, &work, /*numThreads=*/0, /*flags=*/0);
  at::internal::ThreadIdGuard id(0);
  c10::ParallelGuard inside(true);
  body(0, count, 0);
}
