//===- CompileForCuda.h - the part of --compile-kernels for GPUs ----*- C++ -*-===//

#ifndef CLEAVE_PASSES_LOWERING_COMPILEFORCUDA_H
#define CLEAVE_PASSES_LOWERING_COMPILEFORCUDA_H

#include "dialects/exec/Exec.h"
#include "lib/kernels/gpu/Chip.h"
#include "lib/kernels/program/RowProgram.h"

namespace cleave::lowering {

/// A kernel with a row program.
struct CudaKernel {
  exec::KernelOp kernel;
  const kernels::RowProgram *program;
};

struct CudaOptions {
  llvm::ArrayRef<kernels::gpu::Chip> chips;
  /// Print what every function takes of a multiprocessor.
  bool printResources = false;
  /// Takes the binary for a chip.
  llvm::function_ref<void(llvm::StringRef chip, llvm::ArrayRef<char> image)> addBinary;
};

/// The chips of those names, each once. Errors are emitted on `module`.
mlir::FailureOr<llvm::SmallVector<kernels::gpu::Chip>>
findCudaChips(mlir::ModuleOp module, llvm::ArrayRef<std::string> names);

/// Makes a binary for each chip, and gives each kernel its `code` for CUDA, in addition to what it
/// has for other processors. Functions that spill registers get a remark. Errors are emitted on
/// `module`: no toolkit, a device function that libdevice has not, a failure of the assembler.
mlir::LogicalResult compileForCuda(mlir::ModuleOp module, llvm::ArrayRef<CudaKernel> kernels,
                                   const CudaOptions &options);

} // namespace cleave::lowering

#endif // CLEAVE_PASSES_LOWERING_COMPILEFORCUDA_H
