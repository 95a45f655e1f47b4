//===- Allocator.cpp - the tensors' allocator, with places of the caller's ------===//
//
// Operators without an out variant ask LibTorch's allocator for their results. This one is
// consulted first: what the caller has a place for lies there, everything else is as it was.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/TorchVersions.h"
#include "runtime/cuda/Failure.h"
#include "runtime/cuda/Parts.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

using namespace cleave::cuda;
using namespace c10::cuda::CUDACachingAllocator;

namespace {
/// Memory owned by the caller is not freed.
void keep(void *) {}

class PlacingAllocator final : public CUDAAllocator {
public:
  PlacingAllocator(CUDAAllocator &inner, const CleaveAllocationHook &hook)
      : inner(inner), hook(hook) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0)
      return inner.allocate(bytes);
    void *place = hook.place(bytes);
    if (!place) {
      c10::DataPtr found = inner.allocate(bytes);
      hook.note(found.get());
      return found;
    }
    hook.note(place);
    return {place, place, &keep, c10::Device(c10::DeviceType::CUDA, c10::cuda::current_device())};
  }
  // Not all allocations can be freed by one function.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  bool is_simple_data_ptr(const c10::DataPtr &data) const override {
    return inner.is_simple_data_ptr(data);
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    inner.copy_data(to, from, bytes);
  }

  // The inner one's, as they are. It leaves memory alone that it has not allocated.
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr &data, c10::cuda::CUDAStream stream) override {
    inner.recordStream(data, stream);
  }
  bool initialized() override { return inner.initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { inner.emptyCache(pool); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return inner.getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    inner.resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { inner.resetPeakStats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return inner.getMemoryInfo(device);
  }
  void *raw_alloc(size_t bytes) override { return inner.raw_alloc(bytes); }
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    return inner.raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void *data) override { inner.raw_delete(data); }
  void init(int devices) override { inner.init(devices); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return inner.getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    inner.setMemoryFraction(fraction, device);
  }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override {
    return inner.getExpandableSegmentSizes(device);
  }
  void enable(bool isOn) override { inner.enable(isOn); }
  bool isEnabled() const override { return inner.isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, size_t *largest) override {
    inner.cacheInfo(device, largest);
  }
  void *getBaseAllocation(void *data, size_t *size) override {
    return inner.getBaseAllocation(data, size);
  }
  SnapshotInfo snapshot(c10::MempoolId_t pool, bool hasTraces) override {
    return inner.snapshot(pool, hasTraces);
  }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    inner.beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    inner.endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    inner.releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return inner.getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    inner.createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool isUsed) override {
    inner.setUseOnOOM(device, pool, isUsed);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    inner.setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void *> &expected) override {
    return inner.checkPoolLiveAllocations(device, pool, expected);
  }
  ShareableHandle shareIpcHandle(void *data) override { return inner.shareIpcHandle(data); }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return inner.getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return inner.isHistoryEnabled(); }
  void recordHistory(bool isOn, CreateContextFn recorder, size_t maximum, RecordContext when,
                     bool clears, const std::vector<std::string> &skipped) override {
    inner.recordHistory(isOn, recorder, maximum, when, clears, skipped);
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &text) override {
    inner.recordAnnotation(text);
  }
  void pushCompileContext(std::string &text) override { inner.pushCompileContext(text); }
  void popCompileContext() override { inner.popCompileContext(); }
  void setUserMetadata(const std::string &text) override { inner.setUserMetadata(text); }
  std::string getUserMetadata() override { return inner.getUserMetadata(); }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    inner.attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    inner.attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
    inner.enablePeerAccess(device, other);
  }
  cudaError_t memcpyAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                          cudaStream_t stream, bool arePeers) override {
    return inner.memcpyAsync(to, toDevice, from, fromDevice, bytes, stream, arePeers);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                     c10::MempoolId_t pool) override {
    return inner.getCheckpointState(device, pool);
  }
  CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                         std::shared_ptr<AllocatorState> state) override {
    return inner.setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return inner.name(); }
#if CLEAVE_TORCH_HAS_WIDE_CUDA_ALLOCATOR
  void markCaptureBegin(c10::DeviceIndex device) override { inner.markCaptureBegin(device); }
  void markCaptureEnd(c10::DeviceIndex device) override { inner.markCaptureEnd(device); }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void *data) override {
    return inner.getContextForPointer(data);
  }
  bool supportsUserMetadata() override { return inner.supportsUserMetadata(); }
  void annotateMemory(const void *data, const std::string &text) override {
    inner.annotateMemory(data, text);
  }
  void attachOomRejectionObserver(OomRejectionObserver observer) override {
    inner.attachOomRejectionObserver(std::move(observer));
  }
  c10::DataPtr allocateWithAddress(size_t bytes, void *data) override {
    return inner.allocateWithAddress(bytes, data);
  }
#endif

private:
  CUDAAllocator &inner;
  const CleaveAllocationHook &hook;
};
} // namespace

int cleave::cuda::hookAllocator(const CleaveAllocationHook *hook) {
  return guarded([&] {
    // Tensors are freed until the process ends. One hook for all: asked for again, it is there.
    static auto *placing = new PlacingAllocator(*get(), *hook);
    allocator.store(placing);
  });
}
