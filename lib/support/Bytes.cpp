//===- Bytes.cpp - amounts of memory as users write them ----------------------===//

#include "lib/support/Bytes.h"

std::optional<int64_t> cleave::support::parseBytes(llvm::StringRef text) {
  static constexpr std::pair<const char *, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double factor = 1;
  for (auto [unit, bytes] : units)
    if (text.consume_back(unit))
      factor = bytes;
  double value = 0;
  if (text.trim().getAsDouble(value) || !(value > 0) || value * factor > 0x1p62)
    return std::nullopt;
  return static_cast<int64_t>(value * factor);
}
