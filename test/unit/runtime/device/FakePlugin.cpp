//===- FakePlugin.cpp - a device plugin over the host's memory -----------------===//
//
// Stands in for a device if there is none: its tensors are the processor's, its modules are
// shared objects, and a block of a launch is a call. What it is asked for, it writes to the file
// that CLEAVE_FAKE_LOG names. Further variables say how it is to differ from a device that works:
//
//   CLEAVE_FAKE_FAIL=open        the function with that name fails
//   CLEAVE_FAKE_ABI, _TORCH, _KIND     what the table says of itself
//   CLEAVE_FAKE_COUNT, _CAPABILITY     devices, and "9.0"
//   CLEAVE_FAKE_DRAW=off               it draws no random numbers
//   CLEAVE_FAKE_BACKEND, _GRAPHS       communicators (Gloo's) and graphs, which it has without
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Plugin.h"

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/headeronly/version.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

static std::string variable(const char *name, const char *otherwise) {
  const char *value = std::getenv((std::string("CLEAVE_FAKE_") + name).c_str());
  return value ? value : otherwise;
}

static void log(const std::string &line) {
  std::string path = variable("LOG", "");
  if (path.empty())
    return;
  if (FILE *file = std::fopen(path.c_str(), "a")) {
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
  }
}

static thread_local std::string reason;

/// What a function begins with: notes the call, and fails if it is asked to.
static int enter(const char *function, const std::string &detail = "") {
  log(detail.empty() ? function : std::string(function) + " " + detail);
  if (variable("FAIL", "") != function)
    return 0;
  reason = std::string("the fake device was told to fail in ") + function;
  return 1;
}

static const char *lastError() {
  return reason.c_str();
}

static int probe(int32_t *count) {
  *count = std::stoi(variable("COUNT", "1"));
  return enter("probe");
}

static int open(int32_t index, CleaveDeviceFacts *facts) {
  std::snprintf(facts->name, sizeof facts->name, "Fake");
  facts->index = index;
  facts->count = std::stoi(variable("COUNT", "1"));
  std::string capability = variable("CAPABILITY", "9.0");
  facts->capabilityMajor = std::stoi(capability);
  facts->capabilityMinor = std::stoi(capability.substr(capability.find('.') + 1));
  facts->totalMemory = facts->freeMemory = int64_t(1) << 30;
  facts->uuid[0] = uint8_t(index);
  return enter("open", std::to_string(index));
}

static int loadModule(const void *image, size_t bytes, void **module) {
  if (int failed = enter("loadModule", std::to_string(bytes)))
    return failed;
  int file = ::memfd_create("fake", 0);
  if (file < 0 || ::write(file, image, bytes) != ssize_t(bytes)) {
    reason = "cannot write the module";
    return 1;
  }
  *module = ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(file);
  if (*module)
    return 0;
  reason = ::dlerror();
  return 1;
}

static void unloadModule(void *module) {
  log("unloadModule");
  ::dlclose(module);
}

static int getFunction(void *module, const char *name, void **function) {
  if (int failed = enter("getFunction", name))
    return failed;
  *function = ::dlsym(module, name);
  if (*function)
    return 0;
  reason = "no such symbol";
  return 1;
}

/// Functions of modules: `void function(void **arguments, uint32_t block, uint32_t threads)`.
static int launch(void *function, const CleaveLaunch *launch) {
  if (int failed =
          enter("launch", std::to_string(launch->grid) + " x " + std::to_string(launch->block)))
    return failed;
  auto call = reinterpret_cast<void (*)(void **, uint32_t, uint32_t)>(function);
  for (uint32_t block = 0; block < launch->grid; ++block)
    call(launch->arguments, block, launch->block);
  return 0;
}

static int draw(const CleaveDraw *draw) {
  if (int failed = enter("draw", std::to_string(draw->count)))
    return failed;
  cleave::draw::drawRange(*draw, 0, draw->count);
  return 0;
}

/// Gloo's, which notes that a reduce-scatter was left to it.
class FakeBackend : public c10d::ProcessGroupGloo {
public:
  using ProcessGroupGloo::ProcessGroupGloo;
  c10::intrusive_ptr<c10d::Work>
  _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                       const c10d::ReduceScatterOptions &options) override {
    log("reduceScatter");
    return ProcessGroupGloo::_reduce_scatter_base(output, input, options);
  }
};

static int createBackend(const CleaveBackendOptions *options, void **backend) {
  if (int failed = enter("createBackend", options->name))
    return failed;
  try {
    auto made = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(options->timeoutMilliseconds));
    made->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    auto store =
        c10::intrusive_ptr<c10d::Store>::reclaim_copy(static_cast<c10d::Store *>(options->store));
    c10::intrusive_ptr<c10d::Backend> group =
        c10::make_intrusive<FakeBackend>(store, options->rank, options->size, std::move(made));
    *backend = group.release();
    return 0;
  } catch (const std::exception &exception) {
    reason = exception.what();
    return 1;
  }
}

// Nothing is recorded: what runs between the two runs at once, and a replay does nothing.
static int beginCapture(void **graph) {
  *graph = new int(0);
  return enter("beginCapture");
}
static int endCapture(void *) {
  return enter("endCapture");
}
static int replay(void *) {
  return enter("replay");
}
static void destroyGraph(void *graph) {
  log("destroyGraph");
  delete static_cast<int *>(graph);
}

static void pushRange(const char *name) {
  log(std::string("pushRange ") + name);
}
static void popRange() {
  log("popRange");
}

extern "C" const CleaveDevicePlugin *cleave_device_plugin(void) {
  static std::string kind = variable("KIND", "cuda"), torch = variable("TORCH", TORCH_VERSION);
  bool hasGraphs = !variable("GRAPHS", "").empty();
  static CleaveDevicePlugin table;
  table.abi =
      uint32_t(std::stoi(variable("ABI", std::to_string(CLEAVE_DEVICE_PLUGIN_ABI).c_str())));
  table.bytes = sizeof table;
  table.kind = kind.c_str();
  table.deviceType = int32_t(c10::DeviceType::CPU);
  table.torchVersion = torch.c_str();
  table.lastError = lastError;
  table.probe = probe;
  table.open = open;
  // Its tensors are the host's, whose allocator is asked itself.
  table.hookAllocator = nullptr;
  table.loadModule = loadModule;
  table.unloadModule = unloadModule;
  table.getFunction = getFunction;
  table.launch = launch;
  table.draw = variable("DRAW", "on") == "on" ? draw : nullptr;
  table.createBackend = variable("BACKEND", "").empty() ? nullptr : createBackend;
  table.beginCapture = hasGraphs ? beginCapture : nullptr;
  table.endCapture = endCapture;
  table.replay = replay;
  table.destroyGraph = destroyGraph;
  table.pushRange = pushRange;
  table.popRange = popRange;
  return &table;
}
