//===- Crc32c.h - the Castagnoli checksum ------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_CRC32C_H
#define CLEAVE_RUNTIME_IO_CRC32C_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace cleave::runtime {

/// CRC-32C of `bytes` (polynomial 0x1EDC6F41, reflected; RFC 3720, appendix B.4). LLVM has only
/// the IEEE polynomial.
uint32_t crc32c(llvm::ArrayRef<uint8_t> bytes);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_CRC32C_H
