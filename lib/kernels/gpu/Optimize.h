//===- Optimize.h - LLVM IR of GPU kernels to PTX -------------------*- C++ -*-===//
//
// The half of GPU code generation that knows nothing of what kernels compute: a module of LLVM IR
// with kernels of calling convention `ptx_kernel` in it, first made whole and fast, then written as
// PTX. Tests execute the module between the two steps.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_GPU_OPTIMIZE_H
#define CLEAVE_LIB_KERNELS_GPU_OPTIMIZE_H

#include "lib/kernels/gpu/Chip.h"

#include "llvm/IR/Module.h"

namespace cleave::kernels::gpu {

/// Links what `module` uses of `libdevice` (a path; not read where nothing is used), and optimizes.
/// Arithmetic is IEEE's: no flushing of denormals, division and square root correctly rounded;
/// multiplications and additions are fused, as nvcc does. Sets triple and data layout.
/// Errors: libdevice cannot be read, or has not a function that is used.
llvm::Error optimizeForGpu(llvm::Module &module, const Chip &chip, llvm::StringRef libdevice);

/// The module as PTX. It was optimized for the same chip.
llvm::Expected<std::string> emitPtx(llvm::Module &module, const Chip &chip);

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_OPTIMIZE_H
