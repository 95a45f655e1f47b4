//===- OpenDevice.h - devices for callers without LibTorch ---------*- C++ -*-===//
//
// In two steps: the plugin is loaded before anything of LibTorch is used and before a process forks
// ranks; each rank then opens its device.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_OPENDEVICE_H
#define CLEAVE_RUNTIME_DEVICE_OPENDEVICE_H

#include "runtime/device/DevicePlugin.h"
#include "runtime/environment/Environment.h"

namespace cleave::runtime {

class Device;
struct DeleteDevice {
  void operator()(Device *device) const;
};
using OwnedDevice = std::unique_ptr<Device, DeleteDevice>;

struct LoadedDevices {
  std::shared_ptr<DevicePlugin> plugin;
  int count = 0;
};

/// The plugin for devices of `kind`, of which there is at least one; see DevicePlugin::load.
llvm::Expected<LoadedDevices> loadDevices(llvm::StringRef kind, llvm::StringRef path);

/// The device of the rank that is number `localRank` on its machine: ranks beyond the number of
/// devices share them.
llvm::Expected<OwnedDevice> openDevice(const LoadedDevices &devices, int localRank);

/// A line for users: "NVIDIA H200, sm_90, 139.8 GiB (driver 13.0, CUDA 13.0, ...)"
std::string getDeviceText(const Device &device);
/// What is compared among ranks and shown to users.
DeviceDescription describeDevice(const Device &device);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_OPENDEVICE_H
