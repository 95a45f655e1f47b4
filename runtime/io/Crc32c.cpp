//===- Crc32c.cpp - the Castagnoli checksum -------------------------------===//

#include "runtime/io/Crc32c.h"
#include <array>

/// The checksums of the 256 bytes.
static constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0); // the polynomial, bits reversed
    table[byte] = crc;
  }
  return table;
}();

uint32_t cleave::runtime::crc32c(llvm::ArrayRef<uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes)
    crc = kTable[(crc ^ byte) & 0xff] ^ crc >> 8;
  return ~crc;
}
