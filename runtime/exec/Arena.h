//===- Arena.h - the memory that lowered functions plan ------------*- C++ -*-===//
//
// One block of a rank: the arena, which all its lowered functions use in turn, and after it the
// frames of microbatches in flight. Its address is fixed before ops are bound, so that results lie
// at addresses that instructions know.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_ARENA_H
#define CLEAVE_RUNTIME_EXEC_ARENA_H

#include "runtime/device/Device.h"

namespace cleave::runtime {

class Arena {
public:
  Arena() = default;
  /// `bytes` of memory on the device, aligned to `alignment`, a power of two. Throws where there is
  /// not so much.
  Arena(const Device &device, int64_t bytes, int64_t alignment);

  int64_t size() const { return bytes; }
  c10::DeviceType deviceType() const { return place.type(); }
  /// The byte at `offset`, which is in the arena.
  char *at(int64_t offset) const { return base + offset; }
  bool contains(const void *data) const { return data >= base && data < base + bytes; }

  /// A tensor over planned memory, which it does not own.
  at::Tensor tensorAt(void *address, at::IntArrayRef sizes, at::IntArrayRef strides,
                      at::ScalarType type) const;
  /// The same, contiguous.
  at::Tensor tensorAt(void *address, at::IntArrayRef sizes, at::ScalarType type) const;

  /// Fills a range with what is NaN in every floating-point type, so that reading dead memory
  /// shows.
  void poison(int64_t offset, int64_t length) const;

private:
  c10::Device place = c10::Device(c10::DeviceType::CPU);
  at::Tensor memory;
  char *base = nullptr;
  int64_t bytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_ARENA_H
