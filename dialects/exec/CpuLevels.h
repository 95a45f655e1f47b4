//===- CpuLevels.h - the CPUs that kernels are compiled for -----*- C++ -*-===//
//
// For the verifier, the code generator and the runtime, which know one more thing of each level.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_EXEC_CPULEVELS_H
#define CLEAVE_DIALECTS_EXEC_CPULEVELS_H

#include "llvm/ADT/StringRef.h"

namespace cleave::exec {

/// Levels of the x86-64 architecture; each can do what those before it can.
inline constexpr llvm::StringLiteral kCpuLevels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

} // namespace cleave::exec

#endif // CLEAVE_DIALECTS_EXEC_CPULEVELS_H
