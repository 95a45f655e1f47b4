//===- Device.cpp - where a program's tensors are ------------------------------===//

#include "runtime/device/Device.h"
#include "runtime/aten/Requests.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

using namespace cleave::runtime;
using c10::impl::VirtualGuardImpl;

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Device &Device::host() {
  static Device host;
  return host;
}

Device::~Device() = default;

llvm::Expected<std::unique_ptr<Device>> Device::open(std::shared_ptr<DevicePlugin> plugin,
                                                     int index) {
  std::unique_ptr<Device> device(new Device());
  llvm::Expected<CleaveDeviceFacts> facts = plugin->open(index);
  if (!facts)
    return facts.takeError();
  device->known = *facts;
  device->vendor = std::move(plugin);
  auto type = static_cast<c10::DeviceType>(device->vendor->deviceType());
  llvm::Error error = guarded([&] {
    if (type == c10::DeviceType::CPU)
      return;
    device->place = c10::Device(type, static_cast<c10::DeviceIndex>(index));
    VirtualGuardImpl guard(type);
    guard.setDevice(device->place);
    // Not the default stream: that one waits for all others, and cannot be recorded.
    c10::Stream compute = guard.getStreamFromGlobalPool(device->place);
    c10::Stream communication =
        guard.getStreamFromGlobalPool(device->place, /*isHighPriority=*/true);
    c10::Stream copies = guard.getStreamFromGlobalPool(device->place);
    device->streams = {compute, communication, copies};
    guard.exchangeStream(compute);
  });
  if (error)
    return error;
  return device;
}

std::string cleave::runtime::describeVersion(int version, int parts) {
  if (parts == 2) // CUDA: 1000 * major + 10 * minor
    return llvm::formatv("{0}.{1}", version / 1000, version % 1000 / 10);
  // 10000 * major + 100 * minor + patch
  return llvm::formatv("{0}.{1}.{2}", version / 10000, version / 100 % 100, version % 100);
}

std::string Device::describe() const {
  if (isHost())
    return "cpu";
  std::string text = llvm::formatv("{0}, sm_{1}{2}, {3:f1} GiB", known.name, known.capabilityMajor,
                                   known.capabilityMinor, double(known.totalMemory) / 0x1p30);
  std::vector<std::string> versions;
  auto add = [&](llvm::StringRef name, int version, int parts) {
    if (version)
      versions.push_back((name + " " + describeVersion(version, parts)).str());
  };
  add("driver", known.driverVersion, 2);
  add("CUDA", known.runtimeVersion, 2);
  add("NCCL", known.communicationVersion, 3);
  add("cuDNN", known.neuralVersion, 3);
  return versions.empty() ? text : text + " (" + llvm::join(versions, ", ") + ")";
}

c10::DispatchKey Device::dispatchKey() const {
  return c10::computeDispatchKey(std::nullopt, std::nullopt, place);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

at::Tensor Device::allocate(const TensorType &type) const {
  return at::empty(at::IntArrayRef(type.shape.data(), type.shape.size()), options(type.dtype));
}

at::Tensor Device::allocateOnHost(at::IntArrayRef sizes, at::IntArrayRef strides,
                                  at::ScalarType type) const {
  HostCountScope scope;
  auto options = at::TensorOptions().dtype(type).pinned_memory(!place.is_cpu());
  return at::empty_strided(sizes, strides, options);
}

at::Tensor Device::allocateStaging(const TensorType &type) const {
  at::TensorOptions options = at::TensorOptions().dtype(toScalarType(type.dtype));
  if (!place.is_cpu())
    options = options.pinned_memory(true);
  return at::empty(at::IntArrayRef(type.shape.data(), type.shape.size()), options);
}

at::Tensor Device::fromHost(const at::Tensor &tensor) const {
  return place.is_cpu() ? tensor : tensor.to(place, /*non_blocking=*/true);
}

at::Tensor Device::toHost(const at::Tensor &tensor) const {
  return tensor.to(c10::Device(c10::DeviceType::CPU));
}

/// The type of the devices that are asked for: there is one kind in a process.
static c10::DeviceType hookedType = c10::DeviceType::CPU;

static void *placeRequest(size_t bytes) {
  Requests *requests = Requests::current(hookedType);
  return requests ? requests->next(bytes).address : nullptr;
}
static void noteRequest(const void *address) {
  Requests *requests = Requests::current(hookedType);
  if (requests && requests->isWatching())
    requests->note(address);
}

llvm::Error Device::followPlans() const {
  if (place.is_cpu()) {
    installCachingAllocator();
    return llvm::Error::success();
  }
  hookedType = place.type();
  static constexpr CleaveAllocationHook hook = {placeRequest, noteRequest};
  return vendor->hookAllocator(hook);
}

MemoryCounts Device::memory() const {
  if (place.is_cpu())
    return memoryCounts();
  using c10::CachingAllocator::StatType;
  const auto &requested =
      c10::getDeviceAllocator(place.type())->getDeviceStats(place.index()).requested_bytes;
  const auto &all = requested[static_cast<size_t>(StatType::AGGREGATE)];
  return {all.current, all.peak, all.peak};
}

void Device::resetMemoryPeak() const {
  if (place.is_cpu())
    return cleave::runtime::resetMemoryPeak();
  c10::getDeviceAllocator(place.type())->resetPeakStats(place.index());
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Device::StreamScope::StreamScope(const Device &device, StreamKind kind) : device(device) {
  if (device.hasStreams())
    before = VirtualGuardImpl(device.place.type()).exchangeStream(device.stream(kind));
}

Device::StreamScope::~StreamScope() {
  if (before)
    VirtualGuardImpl(device.place.type()).exchangeStream(*before);
}

bool Device::isOnStream(StreamKind kind) const {
  return hasStreams() && VirtualGuardImpl(place.type()).getStream(place) == stream(kind);
}

void Device::noteUse(const at::Tensor &tensor, StreamKind kind) const {
  if (hasStreams() && tensor.defined() && tensor.device() == place)
    VirtualGuardImpl(place.type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream(kind));
}

std::optional<c10::Event> Device::record(StreamKind kind, bool isTimed) const {
  if (!hasStreams())
    return std::nullopt;
  c10::Event event(place.type(),
                   isTimed ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT);
  event.record(stream(kind));
  return event;
}

void Device::recordAgain(std::optional<c10::Event> &event, StreamKind kind) const {
  if (!hasStreams())
    return;
  if (!event)
    event.emplace(place.type());
  event->record(stream(kind));
}

void Device::wait(const std::optional<c10::Event> &event, StreamKind kind) const {
  if (event)
    event->block(stream(kind));
}

void Device::synchronize() const {
  if (hasStreams())
    VirtualGuardImpl(place.type()).synchronizeDevice(place.index());
}
