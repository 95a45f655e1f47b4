//===- Bytes.h - amounts of memory as users write them -------------*- C++ -*-===//

#ifndef CLEAVE_LIB_SUPPORT_BYTES_H
#define CLEAVE_LIB_SUPPORT_BYTES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace cleave::support {

/// "1.5GiB" (KiB, MiB, TiB, or no unit) in bytes; nothing for what is not a positive amount.
std::optional<int64_t> parseBytes(llvm::StringRef text);

} // namespace cleave::support

#endif // CLEAVE_LIB_SUPPORT_BYTES_H
