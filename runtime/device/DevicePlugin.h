//===- DevicePlugin.h - loading a device plugin --------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H
#define CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H

#include "runtime/device/Plugin.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

class DevicePlugin;

/// A module of kernels on a device; unloaded with its last user.
class DeviceModule {
public:
  DeviceModule(const DevicePlugin &plugin, void *handle) : plugin(plugin), handle(handle) {}
  ~DeviceModule();
  DeviceModule(const DeviceModule &) = delete;
  /// The kernel with that name, for `DevicePlugin::launch`.
  llvm::Expected<void *> getFunction(llvm::StringRef name) const;

private:
  const DevicePlugin &plugin;
  void *handle;
};

/// Work of a stream, recorded once to be enqueued as a whole.
class DeviceGraph {
public:
  DeviceGraph(const DevicePlugin &plugin, void *handle) : plugin(plugin), handle(handle) {}
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph &) = delete;
  /// Ends the recording that made it.
  llvm::Error end();
  llvm::Error replay();

private:
  const DevicePlugin &plugin;
  void *handle;
};

/// A loaded plugin, with errors as the runtime has them. It is never unloaded: LibTorch keeps what
/// it registers.
class DevicePlugin {
public:
  /// The plugin for devices of `kind` ("cuda"): the file `path` where that is not empty, else the
  /// one that CLEAVE_DEVICE_PLUGIN names, else libcleave_KIND.so next to the executable or in the
  /// lib directory next to its own. Errors are one line each: this LibTorch is not built for the
  /// kind, there is no plugin, it cannot be loaded, or it is for another version. To be called
  /// before LibTorch is used.
  static llvm::Expected<std::unique_ptr<DevicePlugin>> load(llvm::StringRef kind,
                                                            llvm::StringRef path = "");
  /// A table that is there already, for tests.
  static llvm::Expected<std::unique_ptr<DevicePlugin>>
  wrap(const CleaveDevicePlugin *table, llvm::StringRef kind, llvm::StringRef path);

  llvm::StringRef kind() const { return table->kind; }
  int deviceType() const { return table->deviceType; }
  /// How many devices there are, at least one. The process may fork afterwards.
  llvm::Expected<int> probe() const;
  llvm::Expected<CleaveDeviceFacts> open(int index) const;

  /// Makes the device's allocator ask `hook`, which stays; without effect where it cannot.
  llvm::Error hookAllocator(const CleaveAllocationHook &hook) const;

  llvm::Expected<std::unique_ptr<DeviceModule>> loadModule(llvm::ArrayRef<char> image,
                                                           llvm::StringRef name) const;
  /// Enqueues a kernel on the current stream; `name` is for the error.
  llvm::Error launch(void *function, const CleaveLaunch &launch, llvm::StringRef name) const {
    return table->launch(function, &launch) == 0 ? llvm::Error::success()
                                                 : failure("cannot launch kernel '" + name + "'");
  }
  bool canDraw() const { return table->draw; }
  /// Enqueues the drawing of random numbers on the current stream.
  llvm::Error draw(const CleaveDraw &draw) const {
    return table->draw(&draw) == 0 ? llvm::Error::success() : failure("cannot draw random numbers");
  }
  bool hasBackend() const { return table->createBackend; }
  /// A c10d::Backend, whose reference the caller owns.
  llvm::Expected<void *> createBackend(const CleaveBackendOptions &options) const;
  bool hasGraphs() const { return table->beginCapture; }
  /// Begins to record the current stream.
  llvm::Expected<std::unique_ptr<DeviceGraph>> beginCapture() const;
  void pushRange(const char *name) const {
    if (table->pushRange)
      table->pushRange(name);
  }
  void popRange() const {
    if (table->popRange)
      table->popRange();
  }

private:
  friend class DeviceModule;
  friend class DeviceGraph;
  explicit DevicePlugin(const CleaveDevicePlugin *table) : table(table) {}
  /// `what`: what the plugin says.
  llvm::Error failure(const llvm::Twine &what) const;

  const CleaveDevicePlugin *table;
};

/// Which of `chips` ("sm_80", "sm_90") a device of capability `major`.`minor` runs best: code for a
/// chip runs on those of the same major number that are not older. Nothing if there is none.
std::optional<size_t> chooseChip(llvm::ArrayRef<std::string> chips, int major, int minor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H
