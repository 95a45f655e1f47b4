//===- Compiler.h - row programs to GPU code ------------------------*- C++ -*-===//
//
// From row programs to one binary for each chip, in three steps: functions of the LLVM and NVVM
// dialects (Plan.h, Emitter.h), LLVM IR with libdevice in it, optimized (Optimize.h), PTX and the
// assembler's binary (Ptxas.h).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_KERNELS_GPU_COMPILER_H
#define CLEAVE_LIB_KERNELS_GPU_COMPILER_H

#include "lib/kernels/gpu/Chip.h"
#include "lib/kernels/gpu/Ptxas.h"
#include "lib/kernels/gpu/Toolkit.h"
#include "lib/kernels/program/RowProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/IR/Module.h"

namespace cleave::kernels::gpu {

/// How a kernel is launched: phase after phase, each a grid of `chunks` blocks of `threads`.
/// Entries take the tensors' addresses, arguments first, each a multiple of 16, then the address of
/// `partials` bytes, a multiple of 64.
struct Launch {
  struct Phase {
    std::string entry;
    int64_t chunks = 1;
    unsigned threads = 0;
  };
  std::vector<Phase> phases;
  int64_t partials = 0;
};

/// Compiles the kernels of a program together.
class Compiler {
public:
  Compiler();

  /// Adds a kernel. Names of programs are unique. Error: it has more chunks than a grid can.
  llvm::Expected<Launch> add(const RowProgram &program);

  /// LLVM IR of all kernels, optimized for the chip, with what they need of libdevice.
  llvm::Expected<std::unique_ptr<llvm::Module>>
  translate(llvm::LLVMContext &context, const Chip &chip, llvm::StringRef libdevice);

  /// All kernels as one binary. Errors: those of `optimizeForGpu`, `emitPtx` and `assemblePtx`.
  llvm::Expected<Cubin> compile(const Chip &chip, const Toolkit &toolkit);

private:
  /// Separate from the program's: it has other dialects, and the program is not to know them.
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_COMPILER_H
