//===- Chip.h - the GPUs that kernels are compiled for --------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_GPU_CHIP_H
#define CLEAVE_LIB_KERNELS_GPU_CHIP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cleave::kernels::gpu {

/// A family of GPUs that one binary serves: an NVIDIA compute capability.
struct Chip {
  /// As LLVM and ptxas call it: `sm_90`.
  llvm::StringRef name;
  /// Compute capability times 10.
  unsigned capability;
  /// Multiprocessors of the family's training GPUs (A100: 108, H100 and H200: 132, B200: 148).
  unsigned multiprocessors;
  /// The oldest version of PTX that knows the chip, times 10, as LLVM's feature: `+ptx80`.
  llvm::StringRef ptxFeature;
};

/// All of them, oldest first.
llvm::ArrayRef<Chip> getChips();

/// The chip with that name. Error: the name is none of them; the message lists those that are.
llvm::Expected<Chip> lookupChip(llvm::StringRef name);

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_CHIP_H
