//===- Chip.cpp - the GPUs that kernels are compiled for -------------------------===//

#include "lib/kernels/gpu/Chip.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cleave::kernels;

llvm::ArrayRef<gpu::Chip> gpu::getChips() {
  static const Chip chips[] = {
      {"sm_80", 80, 108, "+ptx70"},
      {"sm_90", 90, 132, "+ptx78"},
      {"sm_100", 100, 148, "+ptx86"},
  };
  return chips;
}

llvm::Expected<gpu::Chip> gpu::lookupChip(llvm::StringRef name) {
  for (const Chip &chip : getChips())
    if (chip.name == name)
      return chip;
  std::string known = llvm::join(
      llvm::map_range(getChips(), [](const Chip &chip) { return chip.name.str(); }), ", ");
  return llvm::createStringError("no chip '" + name + "': kernels are compiled for " + known);
}
