//===- Memory.cpp - a GPU's memory, every access of which is checked ----------------===//

#include "test/unit/lib/kernels/gpu/Memory.h"

using namespace cleave::gputest;

/// Whether nothing orders accesses of `a` and `b`.
static bool areConcurrent(const Accessor &a, const Accessor &b) {
  return a.block != b.block || (a.thread != b.thread && a.epoch == b.epoch);
}

void Memory::addRegion(void *data, size_t size, std::string name, bool initialized) {
  Region &region = regions[uint64_t(data)];
  region.name = std::move(name);
  region.bytes.assign(size, Byte());
  for (Byte &byte : region.bytes)
    byte.initialized = initialized;
}

void Memory::removeRegion(void *data) {
  regions.erase(uint64_t(data));
}

void Memory::beginLaunch() {
  for (auto &[address, region] : regions)
    for (Byte &byte : region.bytes) {
      bool initialized = byte.initialized;
      byte = Byte();
      byte.initialized = initialized;
    }
}

size_t Memory::countUninitialized(void *data) const {
  size_t count = 0;
  for (const Byte &byte : regions.at(uint64_t(data)).bytes)
    count += !byte.initialized;
  return count;
}

void Memory::fail(uint64_t address, const std::string &what, const Accessor &by) const {
  std::string where = "address " + std::to_string(address);
  auto after = regions.upper_bound(address);
  if (after != regions.begin()) {
    const auto &[start, region] = *std::prev(after);
    where = "byte " + std::to_string(address - start) + " of " + region.name + " (" +
            std::to_string(region.bytes.size()) + " bytes)";
  }
  throw Fault("block " + std::to_string(by.block) + ", thread " + std::to_string(by.thread) + " " +
              what + " " + where);
}

Memory::Byte *Memory::find(uint64_t address, unsigned size, unsigned alignment, const char *verb,
                           const Accessor &by) {
  if (address % alignment)
    fail(address, std::string(verb) + " misaligned at", by);
  auto after = regions.upper_bound(address);
  if (after == regions.begin())
    fail(address, std::string(verb) + " out of bounds:", by);
  auto &[start, region] = *std::prev(after);
  if (address + size > start + region.bytes.size())
    fail(address, std::string(verb) + " out of bounds:", by);
  return &region.bytes[address - start];
}

uint8_t *Memory::read(uint64_t address, unsigned size, unsigned alignment, const Accessor &by) {
  Byte *bytes = find(address, size, alignment, "reads", by);
  for (unsigned i = 0; i < size; ++i) {
    Byte &byte = bytes[i];
    if (!byte.initialized)
      fail(address + i, "reads what nothing wrote:", by);
    if (byte.written && areConcurrent(byte.writer, by))
      fail(address + i, "reads while thread " + std::to_string(byte.writer.thread) + " writes", by);
    if (byte.wasRead && byte.reader.block != by.block)
      byte.severalBlocks = true;
    byte.severalReaders = byte.wasRead && byte.reader.block == by.block &&
                          byte.reader.epoch == by.epoch &&
                          (byte.severalReaders || byte.reader.thread != by.thread);
    byte.wasRead = true;
    byte.reader = by;
  }
  return reinterpret_cast<uint8_t *>(address);
}

uint8_t *Memory::write(uint64_t address, unsigned size, unsigned alignment, const Accessor &by) {
  Byte *bytes = find(address, size, alignment, "writes", by);
  for (unsigned i = 0; i < size; ++i) {
    Byte &byte = bytes[i];
    if (byte.written && areConcurrent(byte.writer, by))
      fail(address + i, "writes while thread " + std::to_string(byte.writer.thread) + " writes",
           by);
    if (byte.wasRead && (byte.severalBlocks || areConcurrent(byte.reader, by) ||
                         (byte.severalReaders && byte.reader.epoch == by.epoch)))
      fail(address + i, "writes while thread " + std::to_string(byte.reader.thread) + " reads", by);
    byte.written = true;
    byte.initialized = true;
    byte.writer = by;
  }
  return reinterpret_cast<uint8_t *>(address);
}
