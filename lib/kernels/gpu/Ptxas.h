//===- Ptxas.h - assembling PTX -------------------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_GPU_PTXAS_H
#define CLEAVE_LIB_KERNELS_GPU_PTXAS_H

#include "lib/kernels/gpu/Chip.h"

#include <string>
#include <vector>

namespace cleave::kernels::gpu {

/// What a kernel takes of a multiprocessor, as ptxas reports it.
struct KernelResources {
  /// The entry's name.
  std::string name;
  /// Registers of a thread.
  unsigned registers = 0;
  /// Bytes of a thread's stack, and of registers stored to and loaded from it for want of
  /// registers.
  unsigned stack = 0, spillStores = 0, spillLoads = 0;
  /// Bytes of shared memory of a block.
  unsigned shared = 0;
};

struct Cubin {
  /// The ELF image that the driver loads.
  std::string image;
  /// In the order of their names.
  std::vector<KernelResources> kernels;
};

/// Runs the assembler at `ptxas`. Errors: it cannot be started; it failed, with what it wrote.
llvm::Expected<Cubin> assemblePtx(llvm::StringRef ptx, const Chip &chip, llvm::StringRef ptxas);

/// What `ptxas -v` writes, read.
std::vector<KernelResources> parseResources(llvm::StringRef text);

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_PTXAS_H
