//===- Object.h - from kernels to a shared object -------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CPU_OBJECT_H
#define CLEAVE_LIB_KERNELS_CPU_OBJECT_H

#include "lib/kernels/cpu/EmitKernel.h"

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave::kernels {

struct CpuKernel {
  RowProgram program;
  KernelPlan plan;
  /// Names of the functions of its phases, unique among all kernels.
  std::vector<std::string> entries;
};

/// The kernels as a shared object for `target`, to be loaded into a process that has the C and the
/// mathematical library. The error says what went wrong, such as that ld.lld is missing. With
/// `assembly`, its text goes there instead, and nothing is linked. Threads may call it at once.
llvm::Expected<std::vector<char>> compileForCpu(llvm::ArrayRef<const CpuKernel *> kernels,
                                                const CpuTarget &target,
                                                std::string *assembly = nullptr);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_OBJECT_H
