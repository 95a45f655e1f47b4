//===- OpenDevice.cpp - devices for callers without LibTorch -------------------===//

#include "runtime/device/OpenDevice.h"
#include "runtime/device/Device.h"

#include "llvm/Support/FormatVariadic.h"

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

std::string cleave::runtime::getDeviceText(const Device &device) {
  return device.describe();
}

DeviceDescription cleave::runtime::describeDevice(const Device &device) {
  const CleaveDeviceFacts &facts = device.facts();
  DeviceDescription text;
  text.kind = device.kind().str();
  text.chip =
      llvm::formatv("{0} (sm_{1}{2})", facts.name, facts.capabilityMajor, facts.capabilityMinor);
  if (facts.driverVersion)
    text.driver = describeVersion(facts.driverVersion, 2);
  if (facts.communicationVersion)
    text.communication = "NCCL " + describeVersion(facts.communicationVersion, 3);
  if (facts.neuralVersion)
    text.neural = "cuDNN " + describeVersion(facts.neuralVersion, 3);
  return text;
}
