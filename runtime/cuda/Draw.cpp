//===- Draw.cpp - random numbers on the device ---------------------------------===//
//
// The kernel is compiled when it is first needed, for the chip that is there, by the NVRTC that
// LibTorch brings along: building the plugin needs no compiler of CUDA.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>
#include <nvrtc.h>
#include <string>
#include <vector>

using namespace cleave::cuda;

/// runtime/device/Draw.h, then runtime/cuda/Draw.cu.
static const char kSource[] =
#include "DrawSource.inc"
    ;

namespace {
/// NVRTC's functions, from the library through which LibTorch uses it.
struct Compiler {
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) getLogSize;
  decltype(&nvrtcGetProgramLog) getLog;
  decltype(&nvrtcGetCUBINSize) getSize;
  decltype(&nvrtcGetCUBIN) getCode;
  decltype(&nvrtcDestroyProgram) destroy;

  Compiler() {
    Dl_info info;
    TORCH_CHECK(::dladdr(reinterpret_cast<void *>(&at::cuda::getCurrentDeviceProperties), &info),
                "cannot find LibTorch's CUDA library");
    std::string path = info.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + "libcaffe2_nvrtc.so";
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(library, "cannot load NVRTC: ", ::dlerror());
    auto get = [&](auto &function, const char *name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      TORCH_CHECK(function, "NVRTC has no function ", name);
    };
    get(create, "nvrtcCreateProgram");
    get(compile, "nvrtcCompileProgram");
    get(getLogSize, "nvrtcGetProgramLogSize");
    get(getLog, "nvrtcGetProgramLog");
    get(getSize, "nvrtcGetCUBINSize");
    get(getCode, "nvrtcGetCUBIN");
    get(destroy, "nvrtcDestroyProgram");
  }
};
} // namespace

/// The kernel's code for a chip, "sm_90".
static std::vector<char> compile(const std::string &chip) {
  Compiler compiler;
  nvrtcProgram program;
  TORCH_CHECK(compiler.create(&program, kSource, "draw.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS,
              "cannot initialize NVRTC");
  std::string target = "--gpu-architecture=" + chip;
  // Contracted, numbers would differ from the processor's in their last bits.
  const char *options[] = {target.c_str(), "--fmad=false", "--std=c++17"};
  nvrtcResult result = compiler.compile(program, std::size(options), options);
  size_t size = 0;
  std::string log;
  std::vector<char> code;
  if (result != NVRTC_SUCCESS && compiler.getLogSize(program, &size) == NVRTC_SUCCESS) {
    log.resize(size);
    compiler.getLog(program, log.data());
  } else if (compiler.getSize(program, &size) == NVRTC_SUCCESS) {
    code.resize(size);
    compiler.getCode(program, code.data());
  }
  compiler.destroy(&program);
  TORCH_CHECK(!code.empty(), "NVRTC cannot compile the kernel of random numbers for ", chip, ": ",
              log.substr(0, log.find('\n')));
  return code;
}

int cleave::cuda::draw(const CleaveDraw *draw) {
  return guarded([&] {
    // One device a process.
    static void *const function = [] {
      const cudaDeviceProp &device = *at::cuda::getCurrentDeviceProperties();
      std::vector<char> code = compile("sm_" + std::to_string(10 * device.major + device.minor));
      void *module = nullptr, *found = nullptr;
      TORCH_CHECK(loadModule(code.data(), code.size(), &module) == 0 &&
                      getFunction(module, "cleave_draw", &found) == 0,
                  lastError());
      return found;
    }();
    constexpr int64_t kThreads = 256, kElementsPerThread = 4;
    constexpr int64_t kElements = kThreads * kElementsPerThread;
    int64_t blocks = (draw->count + kElements - 1) / kElements;
    TORCH_CHECK(blocks < (int64_t(1) << 31), "cannot draw ", draw->count, " numbers at once");
    if (blocks == 0)
      return;
    void *arguments[] = {const_cast<CleaveDraw *>(draw)};
    CleaveLaunch launchOne{uint32_t(blocks), uint32_t(kThreads), 0, arguments};
    TORCH_CHECK(launch(function, &launchOne) == 0, lastError());
  });
}
