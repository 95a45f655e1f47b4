//===- OpenDevice.cpp - devices for callers without LibTorch -------------------===//

#include "runtime/device/OpenDevice.h"
#include "runtime/device/Device.h"

using namespace cleave::runtime;

void DeleteDevice::operator()(Device *device) const {
  delete device;
}

llvm::Expected<LoadedDevices> cleave::runtime::loadDevices(llvm::StringRef kind,
                                                           llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<DevicePlugin>> plugin = DevicePlugin::load(kind, path);
  if (!plugin)
    return plugin.takeError();
  llvm::Expected<int> count = (*plugin)->probe();
  if (!count)
    return count.takeError();
  return LoadedDevices{std::move(*plugin), *count};
}

llvm::Expected<OwnedDevice> cleave::runtime::openDevice(const LoadedDevices &devices,
                                                        int localRank) {
  llvm::Expected<std::unique_ptr<Device>> device =
      Device::open(devices.plugin, localRank % devices.count);
  if (!device)
    return device.takeError();
  return OwnedDevice(device->release());
}

std::string cleave::runtime::describeDevice(const Device &device) {
  return device.describe();
}
