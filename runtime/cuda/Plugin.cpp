//===- Plugin.cpp - the CUDA plugin --------------------------------------------===//
//
// Loading this library loads LibTorch's CUDA libraries, which register their kernels. A driver is
// needed only from `probe` on.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Plugin.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cleave::cuda;

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

/// The number of devices, asked for in a child process: the driver must not be used before a fork.
static int countDevices(const Driver &driver, int32_t &count) {
  struct Answer {
    CUresult result = CUDA_ERROR_UNKNOWN;
    int count = 0;
  } answer;
  int ends[2];
  if (::pipe(ends) != 0)
    return fail(std::string("cannot create a pipe: ") + std::strerror(errno));
  pid_t child = ::fork();
  if (child == 0) {
    answer.result = driver.init(0);
    if (answer.result == CUDA_SUCCESS)
      answer.result = driver.getDeviceCount(&answer.count);
    ssize_t written = ::write(ends[1], &answer, sizeof answer);
    ::_exit(written == sizeof answer ? 0 : 1);
  }
  ::close(ends[1]);
  bool isAnswered = child > 0 && ::read(ends[0], &answer, sizeof answer) == sizeof answer;
  ::close(ends[0]);
  if (child > 0)
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  if (!isAnswered)
    return fail("cannot query the NVIDIA driver's devices");
  if (answer.result == CUDA_ERROR_NO_DEVICE)
    return fail("the NVIDIA driver finds no device (nvidia-smi, CUDA_VISIBLE_DEVICES)");
  if (answer.result != CUDA_SUCCESS)
    return fail("cannot initialize the NVIDIA driver: " + driver.describe(answer.result));
  count = answer.count;
  return count > 0 ? 0 : fail("the NVIDIA driver finds no device");
}

static int probe(int32_t *count) {
  std::string reason;
  const Driver *driver = Driver::find(reason);
  if (!driver)
    return fail(reason);
  int version = 0;
  if (driver->getVersion(&version) != CUDA_SUCCESS)
    return fail("cannot query the NVIDIA driver's version");
  // A driver runs all minor versions of its own major one.
  constexpr int needed = CUDART_VERSION / 1000 * 1000;
  if (version < needed)
    return fail("the NVIDIA driver is too old: it is for CUDA " + describeVersion(version) +
                ", but this LibTorch needs " + describeVersion(needed));
  return countDevices(*driver, *count);
}

//===----------------------------------------------------------------------===//
// A device
//===----------------------------------------------------------------------===//

static int32_t getNeuralVersion() {
  auto getVersion = reinterpret_cast<size_t (*)()>(::dlsym(RTLD_DEFAULT, "cudnnGetVersion"));
  return getVersion ? int32_t(getVersion()) : 0;
}

static int open(int32_t index, CleaveDeviceFacts *facts) {
  if (int failed = checkCommunicationVersion())
    return failed;
  return guarded([&] {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    facts->index = index;
    facts->count = c10::cuda::device_count();
    TORCH_CHECK(index < facts->count, "there are only ", facts->count);
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
    // Makes the device's context, which modules and launches need.
    C10_CUDA_CHECK(cudaFree(nullptr));
    const cudaDeviceProp &properties = *at::cuda::getDeviceProperties(index);
    std::snprintf(facts->name, sizeof facts->name, "%s", properties.name);
    facts->capabilityMajor = properties.major;
    facts->capabilityMinor = properties.minor;
    facts->multiprocessors = properties.multiProcessorCount;
    std::memcpy(facts->uuid, &properties.uuid, sizeof facts->uuid);
    size_t freeBytes = 0, totalBytes = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&freeBytes, &totalBytes));
    facts->freeMemory = int64_t(freeBytes);
    facts->totalMemory = int64_t(totalBytes);
    C10_CUDA_CHECK(cudaDriverGetVersion(&facts->driverVersion));
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&facts->runtimeVersion));
    TORCH_CHECK(facts->runtimeVersion / 1000 == CUDART_VERSION / 1000, "CUDA ",
                describeVersion(facts->runtimeVersion),
                " is loaded, but the plugin was built with CUDA ", describeVersion(CUDART_VERSION));
    facts->communicationVersion = getCommunicationVersion();
    facts->neuralVersion = getNeuralVersion();
  });
}

extern "C" __attribute__((visibility("default"))) const CleaveDevicePlugin *
cleave_device_plugin(void) {
  static const CleaveDevicePlugin table = {
      .abi = CLEAVE_DEVICE_PLUGIN_ABI,
      .bytes = sizeof(CleaveDevicePlugin),
      .kind = "cuda",
      .deviceType = int32_t(c10::DeviceType::CUDA),
      .torchVersion = TORCH_VERSION,
      .lastError = lastError,
      .probe = probe,
      .open = open,
      .hookAllocator = hookAllocator,
      .loadModule = loadModule,
      .unloadModule = unloadModule,
      .getFunction = getFunction,
      .launch = launch,
      .draw = draw,
      .createBackend = createBackend,
      .beginCapture = beginCapture,
      .endCapture = endCapture,
      .replay = replay,
      .destroyGraph = destroyGraph,
      .pushRange = pushRange,
      .popRange = popRange,
  };
  return &table;
}
