//===- Device.h - where a program's tensors are --------------------*- C++ -*-===//
//
// What the runtime asks of a device: memory, copies to and from the host, streams and events, all
// through LibTorch's generic interfaces, and its plugin for the rest. The processor is the device
// whose copies and streams are nothing: code for both asks `isHost()` at most.
//
// Which values are where: parameters, buffers, state, inputs, gradients, everything that ops of the
// program compute with is on the device. What only steers them stays on the host: the number of
// the step, the learning rate, seeds and offsets of random numbers, mesh coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_DEVICE_H

#include "runtime/aten/Allocator.h"
#include "runtime/aten/Facade.h"
#include "runtime/device/DevicePlugin.h"
#include "runtime/device/StreamKind.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

namespace cleave::runtime {

class Device {
public:
  /// The processor.
  static Device &host();
  /// Device `index` of the plugin's kind, for the calling thread, which from then on computes on a
  /// stream of its own. The plugin must have been loaded before LibTorch was used.
  static llvm::Expected<std::unique_ptr<Device>> open(std::shared_ptr<DevicePlugin> plugin,
                                                      int index);
  ~Device();

  bool isHost() const { return !vendor; }
  c10::Device torchDevice() const { return place; }
  /// "cpu", "cuda"
  llvm::StringRef kind() const { return vendor ? vendor->kind() : "cpu"; }
  /// Null for the processor.
  DevicePlugin *plugin() const { return vendor.get(); }
  const CleaveDeviceFacts &facts() const { return known; }
  /// "NVIDIA H200, sm_90, 139.8 GiB (driver 13.0, CUDA 13.0, NCCL 2.28.9, cuDNN 9.19.0)"
  std::string describe() const;
  /// The dispatcher's key for its kernels.
  c10::DispatchKey dispatchKey() const;

  at::TensorOptions options(DType dtype) const {
    return at::TensorOptions().dtype(toScalarType(dtype)).device(place);
  }
  /// A contiguous, uninitialised tensor.
  at::Tensor allocate(const TensorType &type) const;
  /// One in the memory that values are offloaded to: page-locked, and on the processor counted
  /// apart from everything else.
  at::Tensor allocateOnHost(at::IntArrayRef sizes, at::IntArrayRef strides,
                            at::ScalarType type) const;
  /// One on the host that copies to and from the device need not wait for: page-locked.
  at::Tensor allocateStaging(const TensorType &type) const;
  /// The tensor on the device or the host; itself where it is there. To the host: complete.
  at::Tensor fromHost(const at::Tensor &tensor) const;
  at::Tensor toHost(const at::Tensor &tensor) const;

  /// Makes the allocator of the device's tensors answer what ops of lowered functions ask of it
  /// with planned addresses (runtime/aten/Requests.h), from now on.
  llvm::Error followPlans() const;

  /// Whether `memory` counts apart what ops use inside while they run; else their workspace is
  /// among the tensors.
  bool countsWorkspace() const { return place.is_cpu(); }
  /// Bytes of tensors on the device.
  MemoryCounts memory() const;
  void resetMemoryPeak() const;

  //===--------------------------------------------------------------------===//
  // Streams. The processor, and devices whose type has none, do everything at once.
  //===--------------------------------------------------------------------===//

  bool hasStreams() const { return streams.has_value(); }
  /// Makes a stream the calling thread's, for as long as it lives.
  class StreamScope {
  public:
    StreamScope(const Device &device, StreamKind kind);
    ~StreamScope();
    StreamScope(const StreamScope &) = delete;

  private:
    const Device &device;
    std::optional<c10::Stream> before;
  };
  c10::Stream stream(StreamKind kind) const { return (*streams)[size_t(kind)]; }
  /// Whether that is the calling thread's; no without streams.
  bool isOnStream(StreamKind kind) const;
  /// Notes that a stream uses a tensor that may be of another one: its memory is not used again
  /// before that is done.
  void noteUse(const at::Tensor &tensor, StreamKind kind) const;
  /// Records an event on a stream; none without streams.
  std::optional<c10::Event> record(StreamKind kind, bool isTimed = false) const;
  /// The same with an event that may be there from before.
  void recordAgain(std::optional<c10::Event> &event, StreamKind kind) const;
  void wait(const std::optional<c10::Event> &event, StreamKind kind) const;
  /// Whether what is enqueued is recorded instead of run (StepGraph).
  bool isRecording() const { return recording; }
  void setRecording(bool isOn) { recording = isOn; }
  /// Blocks until everything enqueued so far is complete. Throws what the device reports.
  void synchronize() const;

private:
  Device() = default;
  std::shared_ptr<DevicePlugin> vendor;
  c10::Device place = c10::Device(c10::DeviceType::CPU);
  CleaveDeviceFacts known{};
  bool recording = false;
  std::optional<std::array<c10::Stream, kNumStreams>> streams;
};

/// "13.0" of 13000, "2.28.9" of 22809 (NCCL), "9.19.0" of 91900 (cuDNN): `parts` numbers.
std::string describeVersion(int version, int parts);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICE_H
