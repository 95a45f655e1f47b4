//===- DevicePlugin.cpp - loading a device plugin ------------------------------===//

#include "runtime/device/DevicePlugin.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <c10/core/Allocator.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <dlfcn.h>

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// The directory of the LibTorch that this process has loaded.
static std::string torchDirectory() {
  Dl_info info;
  if (!::dladdr(reinterpret_cast<void *>(&c10::GetAllocator), &info) || !info.dli_fname)
    return "";
  return llvm::sys::path::parent_path(info.dli_fname).str();
}

/// Where the plugin may be, most wanted first.
static std::vector<std::string> listPlaces(llvm::StringRef kind, llvm::StringRef path) {
  if (!path.empty())
    return {path.str()};
  if (const char *named = std::getenv("CLEAVE_DEVICE_PLUGIN"); named && *named)
    return {named};
  std::string self =
      llvm::sys::fs::getMainExecutable(nullptr, reinterpret_cast<void *>(&listPlaces));
  std::vector<std::string> places;
  for (llvm::StringRef directory : {"", "../lib"}) {
    llvm::SmallString<128> place(llvm::sys::path::parent_path(self));
    llvm::sys::path::append(place, directory, "libcleave_" + kind + ".so");
    llvm::sys::path::remove_dots(place, /*remove_dot_dot=*/true);
    places.push_back(place.str().str());
  }
  return places;
}

llvm::Expected<std::unique_ptr<DevicePlugin>> DevicePlugin::load(llvm::StringRef kind,
                                                                 llvm::StringRef path) {
  std::vector<std::string> places = listPlaces(kind, path);
  bool isChosen = !path.empty() || places.size() == 1;
  std::string torch = torchDirectory();
  // A plugin that the user chose may not need it.
  if (!isChosen && !llvm::sys::fs::exists(torch + "/libtorch_" + kind.str() + ".so"))
    return makeError("--device " + kind + ": this LibTorch (" + torch +
                     ") is not built for it: there is no libtorch_" + kind + ".so");
  std::string found;
  for (const std::string &place : places)
    if (found.empty() && llvm::sys::fs::exists(place))
      found = place;
  if (found.empty()) {
    std::string message = ("--device " + kind + ": there is no plugin at " + places.front()).str();
    for (size_t i = 1; i < places.size(); ++i)
      message += " or " + places[i];
    return makeError(message + (isChosen ? "" : " (set CLEAVE_DEVICE_PLUGIN to use another path)"));
  }
  // LibTorch's own parts find each other's symbols: global, as `import torch` loads them.
  void *library = ::dlopen(found.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char *reason = ::dlerror();
    return makeError("--device " + kind + ": cannot load the plugin " + found + ": " +
                     (reason ? reason : "unknown error"));
  }
  auto entry =
      reinterpret_cast<CleaveDevicePluginEntry>(::dlsym(library, CLEAVE_DEVICE_PLUGIN_ENTRY));
  if (!entry)
    return makeError("--device " + kind + ": " + found +
                     " is not a device plugin: it has no function " CLEAVE_DEVICE_PLUGIN_ENTRY);
  return wrap(entry(), kind, found);
}

llvm::Expected<std::unique_ptr<DevicePlugin>>
DevicePlugin::wrap(const CleaveDevicePlugin *table, llvm::StringRef kind, llvm::StringRef path) {
  auto refuse = [&](const llvm::Twine &what) {
    return makeError("--device " + kind + ": the plugin " + path + " " + what);
  };
  // Only these two fields have their place in every version of the interface.
  if (table->abi != CLEAVE_DEVICE_PLUGIN_ABI || table->bytes != sizeof(CleaveDevicePlugin))
    return refuse("has version " + llvm::Twine(table->abi) + " of the interface (" +
                  llvm::Twine(table->bytes) + " bytes), but this program expects version " +
                  llvm::Twine(CLEAVE_DEVICE_PLUGIN_ABI) + " (" +
                  llvm::Twine(sizeof(CleaveDevicePlugin)) + " bytes): build both together");
  if (kind != table->kind)
    return refuse("is for '" + llvm::Twine(table->kind) + "'");
  if (llvm::StringRef(table->torchVersion) != TORCH_VERSION)
    return refuse("was built for LibTorch " + llvm::Twine(table->torchVersion) +
                  ", but this program for " + TORCH_VERSION);
  return std::unique_ptr<DevicePlugin>(new DevicePlugin(table));
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

llvm::Error DevicePlugin::failure(const llvm::Twine &what) const {
  llvm::StringRef reason = table->lastError();
  return makeError(what + ": " + (reason.empty() ? "the plugin gives no reason" : reason));
}

llvm::Expected<int> DevicePlugin::probe() const {
  int32_t count = 0;
  if (table->probe(&count) != 0)
    return failure("--device " + kind());
  if (count < 1)
    return makeError("--device " + kind() + ": there is no device");
  return count;
}

llvm::Expected<CleaveDeviceFacts> DevicePlugin::open(int index) const {
  CleaveDeviceFacts facts{};
  if (table->open(index, &facts) != 0)
    return failure("--device " + kind() + ": cannot use device " + llvm::Twine(index));
  facts.name[sizeof facts.name - 1] = 0;
  return facts;
}

llvm::Error DevicePlugin::hookAllocator(const CleaveAllocationHook &hook) const {
  if (!table->hookAllocator || table->hookAllocator(&hook) == 0)
    return llvm::Error::success();
  return failure("cannot place tensors where a lowered program plans them");
}

llvm::Expected<std::unique_ptr<DeviceModule>> DevicePlugin::loadModule(llvm::ArrayRef<char> image,
                                                                       llvm::StringRef name) const {
  void *handle = nullptr;
  if (table->loadModule(image.data(), image.size(), &handle) != 0)
    return failure("cannot load the compiled kernels '" + name + "'");
  return std::make_unique<DeviceModule>(*this, handle);
}

llvm::Expected<void *> DevicePlugin::createBackend(const CleaveBackendOptions &options) const {
  if (!hasBackend())
    return makeError("the plugin for '" + kind() + "' has no communicators");
  void *backend = nullptr;
  if (table->createBackend(&options, &backend) != 0)
    return failure("cannot create a communicator of group \"" + llvm::Twine(options.name) + "\"");
  return backend;
}

llvm::Expected<std::unique_ptr<DeviceGraph>> DevicePlugin::beginCapture() const {
  void *handle = nullptr;
  if (table->beginCapture(&handle) != 0)
    return failure("cannot start recording a graph");
  return std::make_unique<DeviceGraph>(*this, handle);
}

DeviceModule::~DeviceModule() {
  plugin.table->unloadModule(handle);
}

llvm::Expected<void *> DeviceModule::getFunction(llvm::StringRef name) const {
  void *function = nullptr;
  if (plugin.table->getFunction(handle, name.str().c_str(), &function) != 0)
    return plugin.failure("the code has no function '" + name + "'");
  return function;
}

DeviceGraph::~DeviceGraph() {
  plugin.table->destroyGraph(handle);
}

llvm::Error DeviceGraph::end() {
  return plugin.table->endCapture(handle) == 0 ? llvm::Error::success()
                                               : plugin.failure("cannot record a graph");
}

llvm::Error DeviceGraph::replay() {
  return plugin.table->replay(handle) == 0 ? llvm::Error::success()
                                           : plugin.failure("cannot run a graph");
}

//===----------------------------------------------------------------------===//
// Chips
//===----------------------------------------------------------------------===//

std::optional<size_t> cleave::runtime::chooseChip(llvm::ArrayRef<std::string> chips, int major,
                                                  int minor) {
  std::optional<size_t> best;
  int bestNumber = -1;
  for (size_t i = 0; i < chips.size(); ++i) {
    llvm::StringRef text = chips[i];
    int number;
    if (!text.consume_front("sm_") || text.getAsInteger(10, number))
      continue; // sm_90a and its like run on that very chip only: not generated
    if (number / 10 == major && number % 10 <= minor && number > bestNumber) {
      best = i;
      bestNumber = number;
    }
  }
  return best;
}
