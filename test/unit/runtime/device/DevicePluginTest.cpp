//===- DevicePluginTest.cpp - loading plugins, and what they say ---------------===//

#include "runtime/device/Device.h"
#include "runtime/device/OpenDevice.h"
#include "runtime/exec/HostViews.h"

#include <gtest/gtest.h>

#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

using namespace cleave::runtime;

namespace {
/// A variable of the environment, for as long as it lives.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name); }

private:
  const char *name;
};

std::string messageOf(llvm::Error error) {
  return llvm::toString(std::move(error));
}

llvm::Expected<std::unique_ptr<DevicePlugin>> loadFake() {
  return DevicePlugin::load("cuda", CLEAVE_FAKE_DEVICE);
}

std::string loadError() {
  auto plugin = loadFake();
  return plugin ? "" : messageOf(plugin.takeError());
}
} // namespace

TEST(DevicePlugin, SaysWhatItIs) {
  llvm::Expected<LoadedDevices> devices = loadDevices("cuda", CLEAVE_FAKE_DEVICE);
  ASSERT_TRUE(bool(devices)) << messageOf(devices.takeError());
  llvm::Expected<OwnedDevice> device = openDevice(*devices, /*localRank=*/3);
  ASSERT_TRUE(bool(device)) << messageOf(device.takeError());
  // Ranks beyond the number of devices share them.
  EXPECT_EQ((*device)->facts().index, 0);
  EXPECT_EQ((*device)->describe(), "Fake, sm_90, 1.0 GiB");
  EXPECT_FALSE((*device)->isHost());
  EXPECT_EQ((*device)->kind(), "cuda");
  EXPECT_EQ(describeDevice(**device).chip, "Fake (sm_90)");
}

TEST(HostViews, CopyNothingThatNothingHasWritten) {
  llvm::Expected<LoadedDevices> devices = loadDevices("cuda", CLEAVE_FAKE_DEVICE);
  ASSERT_TRUE(bool(devices)) << messageOf(devices.takeError());
  llvm::Expected<OwnedDevice> device = openDevice(*devices, /*localRank=*/0);
  ASSERT_TRUE(bool(device)) << messageOf(device.takeError());
  at::Tensor tensor = (*device)->allocate({DType::F32, {4}});
  HostViews views;
  views.setDevice(**device);
  EXPECT_FALSE(views.isOpen());
  views.noteUnwritten(tensor);
  EXPECT_TRUE(views.isOpen());
  float *written = reinterpret_cast<float *>(views.forWriting(tensor).data);
  std::fill_n(written, 4, 3.0f);
  // One view of each tensor, until it is closed; from then on the tensor has values.
  EXPECT_EQ(reinterpret_cast<const float *>(views.forReading(tensor).data)[3], 3.0f);
  views.close();
  EXPECT_FALSE(views.isOpen());
  EXPECT_EQ(tensor.sum().item<float>(), 12.0f);
  EXPECT_EQ(reinterpret_cast<const float *>(views.forReading(tensor).data)[0], 3.0f);
}

TEST(DevicePlugin, RefusesAnotherInterface) {
  Variable abi("CLEAVE_FAKE_ABI", "77");
  EXPECT_NE(loadError().find("has version 77 of the interface"), std::string::npos);
}

TEST(DevicePlugin, RefusesAnotherLibTorch) {
  Variable torch("CLEAVE_FAKE_TORCH", "2.9.1");
  // The fake keeps its first answer; a table shows what another one would say.
  CleaveDevicePlugin table{};
  table.abi = CLEAVE_DEVICE_PLUGIN_ABI;
  table.bytes = sizeof table;
  table.kind = "cuda";
  table.torchVersion = "2.9.1";
  auto plugin = DevicePlugin::wrap(&table, "cuda", "old.so");
  ASSERT_FALSE(bool(plugin));
  EXPECT_EQ(messageOf(plugin.takeError()), "--device cuda: the plugin old.so was built for "
                                           "LibTorch 2.9.1, but this program for " TORCH_VERSION);
}

TEST(DevicePlugin, RefusesAnotherKind) {
  auto plugin = DevicePlugin::load("rocm", CLEAVE_FAKE_DEVICE);
  ASSERT_FALSE(bool(plugin));
  EXPECT_NE(messageOf(plugin.takeError()).find("is for 'cuda'"), std::string::npos);
}

TEST(DevicePlugin, RefusesWhatIsNoPlugin) {
  auto absent = DevicePlugin::load("cuda", "/nowhere/libcleave_cuda.so");
  ASSERT_FALSE(bool(absent));
  EXPECT_EQ(messageOf(absent.takeError()),
            "--device cuda: there is no plugin at /nowhere/libcleave_cuda.so");
  std::string path = testing::TempDir() + "text.so";
  std::ofstream(path) << "no shared object\n";
  auto text = DevicePlugin::load("cuda", path);
  ASSERT_FALSE(bool(text));
  EXPECT_NE(messageOf(text.takeError()).find("cannot load the plugin"), std::string::npos);
  auto other = DevicePlugin::load("cuda", "/lib/x86_64-linux-gnu/libm.so.6");
  ASSERT_FALSE(bool(other));
  EXPECT_NE(messageOf(other.takeError()).find("is not a device plugin"), std::string::npos);
}

TEST(DevicePlugin, EachCallSaysWhyItFails) {
  auto plugin = loadFake();
  ASSERT_TRUE(bool(plugin)) << messageOf(plugin.takeError());
  auto failing = [&](const char *function, auto call) {
    Variable fail("CLEAVE_FAKE_FAIL", function);
    std::string message = call();
    EXPECT_NE(message.find(std::string("the fake device was told to fail in ") + function),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  };
  failing("probe", [&] { return messageOf((*plugin)->probe().takeError()); });
  EXPECT_EQ(failing("open", [&] { return messageOf((*plugin)->open(2).takeError()); }),
            "--device cuda: cannot use device 2: the fake device was told to fail in open");
  failing("loadModule",
          [&] { return messageOf((*plugin)->loadModule({}, "kernels").takeError()); });
  failing("launch", [&] {
    CleaveLaunch launch{1, 1, 0, nullptr};
    return messageOf((*plugin)->launch(nullptr, launch, "gelu"));
  });
  // Neither of them is there where the table says so.
  EXPECT_FALSE((*plugin)->hasBackend());
  EXPECT_FALSE((*plugin)->hasGraphs());
  EXPECT_EQ(messageOf((*plugin)->createBackend({}).takeError()),
            "the plugin for 'cuda' has no communicators");
  std::string image = "no shared object";
  EXPECT_NE(messageOf((*plugin)->loadModule(image, "kernels").takeError())
                .find("cannot load the compiled kernels 'kernels': "),
            std::string::npos);
}

TEST(DevicePlugin, ChoosesTheBestChip) {
  std::vector<std::string> chips = {"sm_80", "sm_90", "sm_100", "sm_90a"};
  EXPECT_EQ(chooseChip(chips, 9, 0), 1u);
  EXPECT_EQ(chooseChip(chips, 8, 9), 0u);
  EXPECT_EQ(chooseChip(chips, 10, 3), 2u);
  EXPECT_EQ(chooseChip(chips, 12, 0), std::nullopt);
  EXPECT_EQ(chooseChip(chips, 7, 5), std::nullopt);
  EXPECT_EQ(chooseChip({"sm_80", "sm_86"}, 8, 9), 1u);
  EXPECT_EQ(chooseChip({"sm_86"}, 8, 0), std::nullopt);
}

TEST(Device, TheHostNeedsNothing) {
  Device &host = Device::host();
  EXPECT_TRUE(host.isHost());
  EXPECT_FALSE(host.hasStreams());
  EXPECT_FALSE(host.record(StreamKind::Compute).has_value());
  host.synchronize();
  at::Tensor tensor = host.allocate({DType::F32, {2, 3}});
  EXPECT_TRUE(host.fromHost(tensor).is_same(tensor));
  EXPECT_TRUE(host.toHost(tensor).is_same(tensor));
}
