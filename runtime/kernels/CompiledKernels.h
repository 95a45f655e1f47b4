//===- CompiledKernels.h - kernels that have code --------------------*- C++ -*-===//
//
// What a launch needs to know of compiled code: pointers go in, results are written. Which binary
// that code is from, how it is loaded and on what it runs is behind these two interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_KERNELS_COMPILEDKERNELS_H
#define CLEAVE_RUNTIME_KERNELS_COMPILEDKERNELS_H

#include "dialects/exec/Exec.h"

#include "llvm/Support/Error.h"

#include <memory>

namespace cleave::runtime {

/// A kernel's code, found and ready.
class CompiledKernel {
public:
  virtual ~CompiledKernel() = default;
  /// Runs all phases. `tensors` points to the data of the kernel's arguments, then of its results;
  /// all are contiguous. Launches of kernels from one source follow one another.
  virtual void launch(void *const *tensors) = 0;
};

/// Where the compiled kernels of a program come from.
class KernelSource {
public:
  virtual ~KernelSource() = default;
  /// Null for a kernel without code for this source's processor. An error names kernel and binary.
  virtual llvm::Expected<std::unique_ptr<CompiledKernel>> find(exec::KernelOp kernel) = 0;
  /// What the code is for: "x86-64-v4", "sm_90"; empty if no compiled code is used.
  virtual llvm::StringRef target() const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_KERNELS_COMPILEDKERNELS_H
