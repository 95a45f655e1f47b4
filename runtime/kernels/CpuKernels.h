//===- CpuKernels.h - compiled kernels on the processor --------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_KERNELS_CPUKERNELS_H
#define CLEAVE_RUNTIME_KERNELS_CPUKERNELS_H

#include "runtime/kernels/CompiledKernels.h"
#include "runtime/kernels/SharedObject.h"

#include <vector>

namespace cleave::runtime {

/// Memory that compiled kernels work in, as much as the one that needs most.
class KernelMemory {
public:
  /// For a kernel that needs so many bytes for each worker, and so many in all.
  void reserve(int64_t scratchBytes, int64_t partialBytes);
  /// What worker number `worker` has to itself. The start of a cache line, as is `partials`.
  char *scratch(int worker) { return align(scratchBlocks) + worker * scratchStride; }
  char *partials() { return align(partialBlock); }
  /// Call before a launch: there may be more threads now than there were.
  void prepare(int workers) {
    if (workers > numWorkers)
      grow(workers);
  }
  int64_t bytes() const { return scratchBlocks.size() + partialBlock.size(); }

private:
  static constexpr int64_t kLine = 64;
  void grow(int workers);
  static char *align(std::vector<char> &block) {
    return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(block.data()) + kLine - 1) /
                                    kLine * kLine);
  }

  int numWorkers = 0;
  int64_t scratchStride = 0;
  std::vector<char> scratchBlocks, partialBlock;
};

/// The code of a program that runs on this processor: null for none. `target`: "best", the best
/// that is in the program and that this machine executes; a target, which must be both if the
/// program has any; "none".
llvm::Expected<exec::BinaryOp> chooseCpuBinary(mlir::ModuleOp module, llvm::StringRef target);

/// The kernels of a program that have code for processors.
class CpuKernels : public KernelSource {
public:
  /// `target`: as for `chooseCpuBinary`. Outlives the kernels that it gives.
  static llvm::Expected<std::unique_ptr<CpuKernels>> create(mlir::ModuleOp module,
                                                            llvm::StringRef target);

  llvm::Expected<std::unique_ptr<CompiledKernel>> find(exec::KernelOp kernel) override;
  /// "x86-64-v4"; empty if no compiled code is used.
  llvm::StringRef target() const override { return targetName; }
  const KernelMemory &memory() const { return shared; }

private:
  exec::BinaryOp binary;
  llvm::StringRef targetName;
  /// Loaded when the first kernel is looked for.
  std::shared_ptr<SharedObject> object;
  KernelMemory shared;
};

/// An error where `target` is not a value of the option: neither "best" nor "none" nor a target.
llvm::Error checkKernelTarget(llvm::StringRef target);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_KERNELS_CPUKERNELS_H
