//===- Toolkit.h - what kernels need of a CUDA toolkit --------------*- C++ -*-===//
//
// Two files: the assembler `ptxas`, run as a program of its own, and `libdevice`, NVIDIA's library
// of mathematical functions as LLVM bitcode. Cleave is built without them; they are looked for when
// a kernel is compiled for a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_GPU_TOOLKIT_H
#define CLEAVE_LIB_KERNELS_GPU_TOOLKIT_H

#include "llvm/Support/Error.h"

#include <string>

namespace cleave::kernels::gpu {

struct Toolkit {
  /// Path of the assembler.
  std::string ptxas;
  /// Path of the bitcode file.
  std::string libdevice;
};

/// The toolkit at `CUDA_HOME` where that is set, else the one whose `ptxas` is on PATH, else the
/// one at `/usr/local/cuda`. Errors: none of them is there; the one found lacks a file.
llvm::Expected<Toolkit> findToolkit();

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_TOOLKIT_H
