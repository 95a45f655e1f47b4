//===- Graphs.cpp - CUDA graphs, and ranges for profilers ----------------------===//

#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <ATen/cuda/CUDAGraph.h>
#include <nvtx3/nvToolsExt.h>

using namespace cleave::cuda;
using at::cuda::CUDAGraph;

int cleave::cuda::beginCapture(void **graph) {
  return guarded([&] {
    auto made = std::make_unique<CUDAGraph>();
    // Only what this thread does may not disturb the recording: NCCL's watchdog asks for events in
    // a thread of its own.
    made->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    *graph = made.release();
  });
}

int cleave::cuda::endCapture(void *graph) {
  return guarded([&] { static_cast<CUDAGraph *>(graph)->capture_end(); });
}

int cleave::cuda::replay(void *graph) {
  return guarded([&] { static_cast<CUDAGraph *>(graph)->replay(); });
}

void cleave::cuda::destroyGraph(void *graph) {
  delete static_cast<CUDAGraph *>(graph);
}

void cleave::cuda::pushRange(const char *name) {
  nvtxRangePushA(name);
}

void cleave::cuda::popRange() {
  nvtxRangePop();
}
