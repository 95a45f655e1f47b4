//===- Parallel.cpp - work for ATen's threads --------------------------------===//

#include "runtime/aten/Parallel.h"

#include <ATen/Parallel.h>

int cleave::runtime::countWorkers() {
  return at::get_num_threads();
}

void cleave::runtime::parallelFor(int64_t count,
                                  llvm::function_ref<void(int64_t, int64_t, int)> body) {
  at::parallel_for(0, count, /*grain_size=*/1,
                   [&](int64_t begin, int64_t end) { body(begin, end, at::get_thread_num()); });
}
