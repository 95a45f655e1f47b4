//===- Devices.cpp - where a program runs --------------------------------------===//

#include "tools/cleave-run/Devices.h"
#include "runtime/environment/Environment.h"
#include "runtime/io/Error.h"

using namespace cleave;
using namespace cleave::runtime;
namespace cl = llvm::cl;

cl::OptionCategory run::deviceCategory("Devices");

static cl::opt<std::string> deviceKind("device",
                                       cl::desc("Device to run on: cpu (default) or cuda"),
                                       cl::value_desc("kind"), cl::init("cpu"),
                                       cl::cat(run::deviceCategory));
static cl::opt<std::string>
    devicePlugin("device-plugin",
                 cl::desc("Plugin for --device (default: CLEAVE_DEVICE_PLUGIN, else "
                          "libcleave_KIND.so next to cleave-run or in ../lib)"),
                 cl::value_desc("file.so"), cl::cat(run::deviceCategory));

enum class Communication { Automatic, Nccl, Host };
static cl::opt<Communication> communication(
    "device-communication",
    cl::desc("How ranks exchange device data (default: nccl unless ranks share a device)"),
    cl::init(Communication::Automatic),
    cl::values(clEnumValN(Communication::Nccl, "nccl", "From device to device, with NCCL"),
               clEnumValN(Communication::Host, "host", "Through host memory, with Gloo")),
    cl::cat(run::deviceCategory));

static cl::opt<bool> nvtx("nvtx", cl::desc("Mark ops with NVTX ranges for profilers"),
                          cl::cat(run::deviceCategory));

static std::optional<LoadedDevices> loaded;

bool run::namesRanges() {
  return nvtx;
}

bool run::wantsNccl() {
  return communication == Communication::Nccl;
}

llvm::Expected<std::unique_ptr<Communicator>> run::makeCommunicator(Communicator &world,
                                                                    const Device &device) {
  std::optional<DeviceMedium> medium;
  if (communication != Communication::Automatic)
    medium =
        communication == Communication::Nccl ? DeviceMedium::Backend : DeviceMedium::ThroughHost;
  return makeDeviceCommunicator(world, device, medium);
}

llvm::Error run::loadDevice() {
  if (deviceKind != "cpu" && deviceKind != "cuda")
    return makeError("--device: expected cpu or cuda, found '{0}'", deviceKind.getValue());
  if (deviceKind == "cpu" && communication.getNumOccurrences())
    return makeError("--device-communication is for --device cuda");
  if (deviceKind == "cpu" && nvtx)
    return makeError("--nvtx is for --device cuda");
  if (deviceKind == "cpu")
    return devicePlugin.empty() ? llvm::Error::success()
                                : makeError("--device-plugin is for --device cuda");
  llvm::Expected<LoadedDevices> devices = loadDevices(deviceKind, devicePlugin);
  if (!devices)
    return devices.takeError();
  loaded = std::move(*devices);
  return llvm::Error::success();
}

llvm::Expected<OwnedDevice> run::openDevice(const RankEnvironment &environment) {
  if (!loaded)
    return OwnedDevice();
  llvm::Expected<int> index = chooseLocalDevice(environment, loaded->count);
  if (!index)
    return index.takeError();
  llvm::Expected<OwnedDevice> device = runtime::openDevice(*loaded, *index);
  if (device)
    setDeviceDescription(runtime::describeDevice(**device));
  return device;
}
