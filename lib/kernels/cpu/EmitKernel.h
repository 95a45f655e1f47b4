//===- EmitKernel.h - kernels as loops over vectors -----------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CPU_EMITKERNEL_H
#define CLEAVE_LIB_KERNELS_CPU_EMITKERNEL_H

#include "lib/kernels/cpu/KernelPlan.h"

namespace cleave::kernels {

/// A level of the x86-64 architecture.
struct CpuTarget {
  llvm::StringLiteral name;
  /// f32 numbers in a register.
  int64_t lanes;
  /// Whether it converts f16.
  bool hasHalf;
  /// Whether it has fused multiply-adds.
  bool hasFma;
  /// Whether it scales by powers of two.
  bool hasScale;
};

/// x86-64-v2, -v3 and -v4.
llvm::ArrayRef<CpuTarget> getCpuTargets();
/// Null for a name that is none of theirs.
const CpuTarget *findCpuTarget(llvm::StringRef name);

/// Adds to `module` a function for each phase (dialects llvm, scf, arith, math and vector):
/// `void entry(void *const *tensors, int64_t chunk, void *scratch, void *partials)`.
void emitCpuKernel(mlir::ModuleOp module, const RowProgram &program, const KernelPlan &plan,
                   llvm::ArrayRef<std::string> entries, const CpuTarget &target);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_EMITKERNEL_H
