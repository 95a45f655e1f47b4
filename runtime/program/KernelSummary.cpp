//===- KernelSummary.cpp - what of a program is compiled ---------------------===//

#include "cleave/Session.h"
#include "dialects/exec/Exec.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace cleave;
using namespace cleave::runtime;

std::string cleave::runtime::describeKernels(const Program &program) {
  mlir::ModuleOp module = *program.impl().module;
  auto kernels = module.getOps<exec::KernelOp>();
  if (kernels.empty())
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "kernels (" << llvm::range_size(kernels) << ")\n";
  for (exec::Family family : {exec::Family::Cpu, exec::Family::Cuda}) {
    llvm::SmallVector<std::string> targets;
    for (exec::BinaryOp binary : module.getOps<exec::BinaryOp>())
      if (binary.getFamily() == family)
        targets.push_back(
            (binary.getTarget() + ", " + describeBytes(binary.getBytes().size())).str());
    if (targets.empty())
      continue;
    auto compiled = llvm::count_if(
        kernels, [&](exec::KernelOp kernel) { return bool(kernel.getCodeFor(family)); });
    os << llvm::format("  %6lld", static_cast<long long>(compiled)) << " compiled for "
       << exec::stringifyFamily(family) << ": " << llvm::join(targets, "; ") << "\n";
  }
  return text;
}
