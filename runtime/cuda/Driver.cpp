//===- Driver.cpp - CUDA's driver, found when the program runs -----------------===//

#include "runtime/cuda/Driver.h"

#include <dlfcn.h>

using namespace cleave::cuda;

/// Functions have the meaning that they had in this version of CUDA.
static constexpr int kInterface = 12000;

namespace {
struct Found {
  Driver driver{};
  std::string reason;
};
} // namespace

static Found load() {
  Found found;
  void *library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    found.reason = "there is no NVIDIA driver on this machine (no libcuda.so.1)";
    return found;
  }
  using GetProcAddress =
      CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
  auto getAddress = reinterpret_cast<GetProcAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  if (!getAddress) {
    found.reason = "the NVIDIA driver is too old: it has no cuGetProcAddress_v2 (CUDA 12)";
    return found;
  }
  auto get = [&](auto &function, const char *name) {
    void *address = nullptr;
    CUdriverProcAddressQueryResult status;
    if (getAddress(name, &address, kInterface, CU_GET_PROC_ADDRESS_DEFAULT, &status) !=
            CUDA_SUCCESS ||
        !address) {
      if (found.reason.empty())
        found.reason = std::string("the NVIDIA driver is too old: it has no ") + name;
      return;
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  Driver &driver = found.driver;
  get(driver.init, "cuInit");
  get(driver.getVersion, "cuDriverGetVersion");
  get(driver.getDeviceCount, "cuDeviceGetCount");
  get(driver.loadModule, "cuModuleLoadData");
  get(driver.unloadModule, "cuModuleUnload");
  get(driver.getFunction, "cuModuleGetFunction");
  get(driver.setAttribute, "cuFuncSetAttribute");
  get(driver.launch, "cuLaunchKernel");
  get(driver.getErrorString, "cuGetErrorString");
  return found;
}

const Driver *Driver::find(std::string &reason) {
  static const Found found = load();
  reason = found.reason;
  return reason.empty() ? &found.driver : nullptr;
}

std::string Driver::describe(CUresult result) const {
  const char *text = nullptr;
  if (getErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "unknown error";
  return std::string(text) + " (error " + std::to_string(int(result)) + ")";
}

std::string cleave::cuda::describeVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
