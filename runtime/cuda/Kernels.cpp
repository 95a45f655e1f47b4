//===- Kernels.cpp - modules and launches by the driver ------------------------===//

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <c10/cuda/CUDAStream.h>

using namespace cleave::cuda;

/// Shared memory that a block may have without being asked for it.
static constexpr uint32_t kUnaskedShared = 48 << 10;

/// There is one: the device was opened.
static const Driver &driver() {
  static const Driver *found = [] {
    std::string reason;
    return Driver::find(reason);
  }();
  return *found;
}

static int check(CUresult result) {
  return result == CUDA_SUCCESS ? 0 : fail(driver().describe(result));
}

int cleave::cuda::loadModule(const void *image, size_t, void **module) {
  // The image is an ELF file, which says where it ends.
  return check(driver().loadModule(reinterpret_cast<CUmodule *>(module), image));
}

void cleave::cuda::unloadModule(void *module) {
  // Fails only where the context is gone, and the module with it.
  (void)driver().unloadModule(static_cast<CUmodule>(module));
}

int cleave::cuda::getFunction(void *module, const char *name, void **function) {
  return check(driver().getFunction(reinterpret_cast<CUfunction *>(function),
                                    static_cast<CUmodule>(module), name));
}

int cleave::cuda::launch(void *function, const CleaveLaunch *launch) {
  auto kernel = static_cast<CUfunction>(function);
  if (launch->sharedBytes > kUnaskedShared)
    if (int failed = check(driver().setAttribute(
            kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(launch->sharedBytes))))
      return failed;
  return check(driver().launch(kernel, launch->grid, 1, 1, launch->block, 1, 1, launch->sharedBytes,
                               c10::cuda::getCurrentCUDAStream().stream(), launch->arguments,
                               nullptr));
}
