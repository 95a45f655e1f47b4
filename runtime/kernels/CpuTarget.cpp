//===- CpuTarget.cpp - which code a processor executes -----------------------===//

#include "runtime/kernels/CpuTarget.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;

llvm::ArrayRef<llvm::StringRef> cleave::runtime::getCpuTargets() {
  static const llvm::StringRef targets[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2"};
  return targets;
}

bool cleave::runtime::executesCpuTarget(llvm::StringRef target) {
#if defined(__x86_64__)
  // The compiler's runtime library also asks whether the system saves the registers.
  __builtin_cpu_init();
  if (target == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
  if (target == "x86-64-v3")
    return __builtin_cpu_supports("x86-64-v3");
  if (target == "x86-64-v2")
    return __builtin_cpu_supports("x86-64-v2");
#endif
  return false;
}

llvm::StringRef cleave::runtime::getBestCpuTarget() {
  const llvm::StringRef *best = llvm::find_if(getCpuTargets(), executesCpuTarget);
  return best == getCpuTargets().end() ? "" : *best;
}
