//===- Devices.cpp - the devices that a Python process computes on -------------===//

#include "python/native/Devices.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

using namespace cleave;
using namespace cleave::runtime;
using c10::impl::VirtualGuardImpl;

llvm::Expected<Device *> python::findDevice(const std::string &kind, int index,
                                            const std::string &plugin) {
  if (kind == "cpu")
    return nullptr;
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<DevicePlugin>> plugins;
  static std::map<std::pair<std::string, int>, std::unique_ptr<Device>> devices;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Device> &device = devices[{kind, index}];
  if (device)
    return device.get();
  std::shared_ptr<DevicePlugin> &loaded = plugins[kind];
  if (!loaded) {
    // Its devices are not counted, as cleave-run has it: that forks, and Python uses them already.
    llvm::Expected<std::unique_ptr<DevicePlugin>> found = DevicePlugin::load(kind, plugin);
    if (!found)
      return found.takeError();
    loaded = std::move(*found);
  }
  // Opening makes a stream of its own the thread's, which is Python's.
  auto type = static_cast<c10::DeviceType>(loaded->deviceType());
  std::optional<c10::Device> deviceBefore;
  std::optional<c10::Stream> streamBefore;
  if (type != c10::DeviceType::CPU) {
    VirtualGuardImpl guard(type);
    deviceBefore = guard.getDevice();
    streamBefore = guard.getStream(c10::Device(type, static_cast<c10::DeviceIndex>(index)));
  }
  llvm::Expected<std::unique_ptr<Device>> opened = Device::open(loaded, index);
  if (streamBefore) {
    VirtualGuardImpl guard(type);
    guard.exchangeStream(*streamBefore);
    guard.setDevice(*deviceBefore);
  }
  if (!opened)
    return opened.takeError();
  device = std::move(*opened);
  return device.get();
}

python::DeviceTurn::DeviceTurn(const Device *device) : device(device) {
  if (!device || !device->hasStreams())
    return;
  VirtualGuardImpl guard(device->torchDevice().type());
  deviceBefore = guard.exchangeDevice(device->torchDevice());
  streamBefore = guard.getStream(device->torchDevice());
  c10::Event before(device->torchDevice().type());
  before.record(*streamBefore);
  before.block(device->stream(StreamKind::Compute));
  guard.exchangeStream(device->stream(StreamKind::Compute));
}

python::DeviceTurn::~DeviceTurn() {
  if (!streamBefore)
    return;
  VirtualGuardImpl guard(device->torchDevice().type());
  // What a failed device reports has been, or will be, reported by what runs on it.
  llvm::consumeError(guarded([&] {
    c10::Event after(device->torchDevice().type());
    after.record(device->stream(StreamKind::Compute));
    after.block(*streamBefore);
  }));
  guard.exchangeStream(*streamBefore);
  guard.uncheckedSetDevice(*deviceBefore);
}
