//===- CpuTarget.h - which code a processor executes -----------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_KERNELS_CPUTARGET_H
#define CLEAVE_RUNTIME_KERNELS_CPUTARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace cleave::runtime {

/// The targets of compiled kernels, best first: "x86-64-v4", "x86-64-v3", "x86-64-v2".
llvm::ArrayRef<llvm::StringRef> getCpuTargets();

/// Whether this processor, and the system on it, execute code for one of these.
bool executesCpuTarget(llvm::StringRef target);

/// The best that it executes; empty if that is none.
llvm::StringRef getBestCpuTarget();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_KERNELS_CPUTARGET_H
