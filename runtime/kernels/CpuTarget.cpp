//===- CpuTarget.cpp - which code a processor executes -----------------------===//

#include "runtime/kernels/CpuTarget.h"
#include "dialects/exec/CpuLevels.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace cleave;
using namespace cleave::runtime;

llvm::ArrayRef<llvm::StringRef> cleave::runtime::getCpuTargets() {
  static const auto targets = llvm::to_vector_of<llvm::StringRef>(llvm::reverse(exec::kCpuLevels));
  return targets;
}

bool cleave::runtime::executesCpuTarget(llvm::StringRef target) {
#if defined(__x86_64__)
  // The compiler's runtime library also asks whether the system saves the registers.
  static constexpr bool (*executes[])() = {[] { return __builtin_cpu_supports("x86-64-v2") != 0; },
                                           [] { return __builtin_cpu_supports("x86-64-v3") != 0; },
                                           [] { return __builtin_cpu_supports("x86-64-v4") != 0; }};
  static_assert(std::size(executes) == std::size(exec::kCpuLevels));
  __builtin_cpu_init();
  for (auto [level, isExecuted] : llvm::zip_equal(exec::kCpuLevels, executes))
    if (level == target)
      return isExecuted();
#endif
  return false;
}

llvm::StringRef cleave::runtime::getBestCpuTarget() {
  const llvm::StringRef *best = llvm::find_if(getCpuTargets(), executesCpuTarget);
  return best == getCpuTargets().end() ? "" : *best;
}
