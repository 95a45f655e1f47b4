//===- Memory.h - a GPU's memory, every access of which is checked --*- C++ -*-===//
//
// Addresses are those of the host. Each byte of a region remembers who touched it last, so that an
// access finds what NVIDIA's compute-sanitizer would: addresses out of bounds or misaligned, bytes
// that nothing wrote, and races: two threads at one byte, one of them writing, with no barrier
// between.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_MEMORY_H
#define CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_MEMORY_H

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cleave::gputest {

/// What a kernel did wrong.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Who accesses memory.
struct Accessor {
  uint32_t block = 0, thread = 0;
  /// Counts the barriers of all blocks: accesses of one block with different epochs are ordered.
  uint32_t epoch = 0;
};

class Memory {
public:
  /// Makes `size` bytes at `data` accessible. They are `initialized`, or must be written first.
  void addRegion(void *data, size_t size, std::string name, bool initialized);
  void removeRegion(void *data);
  /// No thread has accessed anything: what was written before is there.
  void beginLaunch();
  /// Number of bytes of the region that have never been written.
  size_t countUninitialized(void *data) const;

  /// The address, checked for an access of `size` bytes.
  uint8_t *read(uint64_t address, unsigned size, unsigned alignment, const Accessor &by);
  uint8_t *write(uint64_t address, unsigned size, unsigned alignment, const Accessor &by);

private:
  struct Byte {
    Accessor writer, reader;
    bool written = false, wasRead = false;
    bool severalReaders = false; ///< of one block, in the reader's epoch
    bool severalBlocks = false;  ///< have read it
    bool initialized = false;
  };
  struct Region {
    std::string name;
    std::vector<Byte> bytes;
  };
  Byte *find(uint64_t address, unsigned size, unsigned alignment, const char *verb,
             const Accessor &by);
  [[noreturn]] void fail(uint64_t address, const std::string &what, const Accessor &by) const;

  std::map<uint64_t, Region> regions;
};

} // namespace cleave::gputest

#endif // CLEAVE_TEST_UNIT_LIB_KERNELS_GPU_MEMORY_H
