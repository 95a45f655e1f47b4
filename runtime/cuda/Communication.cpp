//===- Communication.cpp - NCCL, through LibTorch's process groups -------------===//
//
// ProcessGroupNCCL provides what a communicator needs besides NCCL: the exchange of its unique id
// over the job's store, a watchdog with timeouts, and abort. In what order and on which stream
// operations run is the caller's: it asks for operations that are not asynchronous, which run on
// the current stream.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <dlfcn.h>

using namespace cleave::cuda;

static std::string describe(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

int cleave::cuda::getCommunicationVersion() {
  // LibTorch has loaded it; calling it by name would need it at link time.
  auto getVersion =
      reinterpret_cast<ncclResult_t (*)(int *)>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  return getVersion && getVersion(&version) == ncclSuccess ? version : 0;
}

int cleave::cuda::checkCommunicationVersion() {
  // Its options are part of LibTorch's, so their layout must be the same: major and minor number.
  int loaded = getCommunicationVersion();
  if (loaded == 0 || loaded / 100 == NCCL_VERSION_CODE / 100)
    return 0;
  return fail("NCCL " + ::describe(loaded) + " is loaded, but the plugin was built with NCCL " +
              ::describe(NCCL_VERSION_CODE));
}

int cleave::cuda::createBackend(const CleaveBackendOptions *options, void **backend) {
  return guarded([&] {
    // On an error or a timeout the watchdog aborts the communicators; to end the process, and to
    // say who is to blame, is the caller's part.
    ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", /*overwrite=*/0);
    ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*overwrite=*/0);
    auto store =
        c10::intrusive_ptr<c10d::Store>::reclaim_copy(static_cast<c10d::Store *>(options->store));
    auto made = c10d::ProcessGroupNCCL::Options::create();
    made->timeout = std::chrono::milliseconds(options->timeoutMilliseconds);
    made->group_name = options->name;
    c10::intrusive_ptr<c10d::Backend> group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        store, options->rank, options->size, std::move(made));
    *backend = group.release();
  });
}
