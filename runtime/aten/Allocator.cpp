//===- Allocator.cpp - CPU memory that steps use again -----------------------===//
//
// Three ranges of sizes:
// - small blocks, in bins of one size each, per thread: no lock and no search;
// - middle ones, left to malloc, which is told not to give memory back to the kernel;
// - large ones, which malloc would map and unmap: kept in one list, taken again by best fit.
//
//===----------------------------------------------------------------------===//

#include "runtime/aten/Allocator.h"
#include "runtime/aten/Requests.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include <malloc.h>

using namespace cleave::runtime;

namespace {

/// What ATen's own allocator aligns to; kernels choose instructions by it.
constexpr size_t kAlignment = 64;
constexpr size_t kLargestSmall = 4096;
constexpr size_t kSmallestLarge = size_t(32) << 20; // the most that malloc can be told to keep
constexpr size_t kMaxPerBin = 256;
/// Freed large blocks are kept up to this part of the peak.
constexpr int64_t kKeptPartOfPeak = 2;

/// Bytes in use for one purpose, and the most there were.
struct Count {
  std::atomic<int64_t> current{0}, peak{0};

  static void raise(std::atomic<int64_t> &peak, int64_t value) {
    int64_t known = peak.load(std::memory_order_relaxed);
    while (value > known && !peak.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
  }
  int64_t add(int64_t bytes) {
    int64_t now = current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    raise(peak, now);
    return now;
  }
};
/// What ops use inside while they run, and everything else.
Count workspace, tensors;
/// Copies in the host's memory.
Count offloaded;
thread_local unsigned openHostScopes = 0;
std::atomic<int64_t> peakBytes{0};

/// Stands before each block.
struct alignas(kAlignment) Header {
  size_t size;     ///< as asked for
  size_t capacity; ///< of the block, without the header
  Count *count;    ///< where it is counted
};
static_assert(sizeof(Header) == kAlignment);

Header *headerOf(void *data) {
  return static_cast<Header *>(data) - 1;
}

Header *obtain(size_t capacity) {
  void *memory = nullptr;
  if (capacity > std::numeric_limits<ptrdiff_t>::max() - sizeof(Header) ||
      posix_memalign(&memory, kAlignment, capacity + sizeof(Header)) != 0)
    return nullptr;
  auto *header = static_cast<Header *>(memory);
  header->capacity = capacity;
  return header;
}

/// One bin for each multiple of the alignment up to `kLargestSmall`.
struct SmallBins {
  std::array<std::vector<Header *>, kLargestSmall / kAlignment + 1> bins;

  ~SmallBins();
};
// Tensors may be freed by a thread whose bins are gone already.
thread_local bool binsAreGone = false;
thread_local SmallBins smallBins;

SmallBins::~SmallBins() {
  binsAreGone = true;
  for (std::vector<Header *> &bin : bins)
    for (Header *block : bin)
      std::free(block);
}

class LargeBlocks {
public:
  /// A kept block of at least `capacity` bytes, not much more; null if there is none.
  Header *take(size_t capacity) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = blocks.lower_bound(capacity);
    if (found == blocks.end() || found->first > capacity + capacity / 8)
      return nullptr;
    Header *block = found->second;
    kept -= block->capacity;
    blocks.erase(found);
    return block;
  }

  void keep(Header *block) {
    std::lock_guard<std::mutex> lock(mutex);
    blocks.emplace(block->capacity, block);
    kept += block->capacity;
    while (kept > peakBytes.load(std::memory_order_relaxed) / kKeptPartOfPeak) {
      auto largest = std::prev(blocks.end());
      kept -= largest->first;
      std::free(largest->second);
      blocks.erase(largest);
    }
  }

  void release() {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[capacity, block] : blocks)
      std::free(block);
    blocks.clear();
    kept = 0;
  }

private:
  std::mutex mutex;
  std::multimap<size_t, Header *> blocks;
  int64_t kept = 0;
};

LargeBlocks &largeBlocks() {
  // Never destroyed: tensors of static duration are freed later than this file's objects.
  static auto *blocks = new LargeBlocks;
  return *blocks;
}

Header *allocateBlock(size_t size) {
  size_t capacity = (size + kAlignment - 1) / kAlignment * kAlignment;
  if (capacity <= kLargestSmall && !binsAreGone) {
    std::vector<Header *> &bin = smallBins.bins[capacity / kAlignment];
    if (!bin.empty()) {
      Header *block = bin.back();
      bin.pop_back();
      return block;
    }
  } else if (capacity >= kSmallestLarge) {
    if (Header *block = largeBlocks().take(capacity))
      return block;
  }
  if (Header *block = obtain(capacity))
    return block;
  largeBlocks().release();
  return obtain(capacity);
}

void deallocate(void *data) {
  if (!data)
    return;
  Header *block = headerOf(data);
  block->count->current.fetch_sub(block->size, std::memory_order_relaxed);
  if (block->capacity <= kLargestSmall && !binsAreGone) {
    std::vector<Header *> &bin = smallBins.bins[block->capacity / kAlignment];
    if (bin.size() < kMaxPerBin)
      return bin.push_back(block);
  } else if (block->capacity >= kSmallestLarge) {
    return largeBlocks().keep(block);
  }
  std::free(block);
}

int64_t bytesInUse() {
  return tensors.current.load(std::memory_order_relaxed) +
         workspace.current.load(std::memory_order_relaxed);
}

/// Memory owned by others is not freed.
void keep(void *) {}

class CachingAllocator : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t size) override {
    c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0)
      return {nullptr, nullptr, &deallocate, cpu};
    Requests *requests =
        HostCountScope::isOpen() ? nullptr : Requests::current(c10::DeviceType::CPU);
    Requests::Answer answer{nullptr, /*isResult=*/Requests::isProgramThread()};
    if (requests)
      answer = requests->next(size);
    if (answer.address) {
      if (requests->isWatching())
        requests->note(answer.address);
      return {answer.address, answer.address, &keep, cpu};
    }
    Header *block = allocateBlock(size);
    TORCH_CHECK(block, "out of memory: cannot allocate ", size, " bytes; ", bytesInUse(),
                " bytes are in use");
    block->size = size;
    block->count = HostCountScope::isOpen() ? &offloaded : answer.isResult ? &tensors : &workspace;
    block->count->add(size);
    Count::raise(peakBytes, bytesInUse());
    void *data = block + 1;
    if (requests && requests->isWatching())
      requests->note(data);
    return {data, data, &deallocate, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &deallocate; }

  void copy_data(void *destination, const void *source, size_t size) const override {
    default_copy_data(destination, source, size);
  }
};

} // namespace

void cleave::runtime::installCachingAllocator() {
  static CachingAllocator *allocator = [] {
    mallopt(M_MMAP_THRESHOLD, kSmallestLarge);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    return new CachingAllocator;
  }();
  c10::SetCPUAllocator(allocator, /*priority=*/100);
}

MemoryCounts cleave::runtime::memoryCounts() {
  return {bytesInUse(), peakBytes.load(), tensors.peak.load(), workspace.peak.load(),
          offloaded.peak.load()};
}

void cleave::runtime::resetMemoryPeak() {
  for (Count *count : {&tensors, &workspace, &offloaded})
    count->peak.store(count->current.load());
  peakBytes.store(bytesInUse());
}

HostCountScope::HostCountScope() {
  ++openHostScopes;
}
HostCountScope::~HostCountScope() {
  --openHostScopes;
}
bool HostCountScope::isOpen() {
  return openHostScopes > 0;
}

void cleave::runtime::countAsTensor(const c10::Storage &storage) {
  if (storage.data_ptr().get_deleter() != &deallocate)
    return;
  Header *block = headerOf(storage.mutable_data());
  if (block->count != &workspace)
    return;
  workspace.current.fetch_sub(block->size, std::memory_order_relaxed);
  block->count = &tensors;
  tensors.add(block->size);
}
