//===- CompileForCuda.cpp - the part of --compile-kernels for GPUs -----------===//

#include "passes/lowering/CompileForCuda.h"
#include "lib/kernels/gpu/Compiler.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
namespace gpu = kernels::gpu;

FailureOr<SmallVector<gpu::Chip>> lowering::findCudaChips(ModuleOp module,
                                                          ArrayRef<std::string> names) {
  SmallVector<gpu::Chip> chips;
  for (const std::string &name : names) {
    llvm::Expected<gpu::Chip> chip = gpu::lookupChip(name);
    if (!chip)
      return module.emitError("--compile-kernels: ") << llvm::toString(chip.takeError());
    if (llvm::none_of(chips, [&](const gpu::Chip &known) { return known.name == chip->name; }))
      chips.push_back(*chip);
  }
  return chips;
}

namespace {
/// The kernel that a function belongs to, and the number of threads it runs with.
struct Entry {
  exec::KernelOp kernel;
  unsigned threads = 0;
};
} // namespace

static void report(const gpu::Chip &chip, const gpu::Cubin &cubin,
                   const llvm::StringMap<Entry> &entries, bool print) {
  for (const gpu::KernelResources &taken : cubin.kernels) {
    const Entry &entry = entries.at(taken.name);
    if (print)
      llvm::outs() << chip.name << " " << taken.name << ": " << entry.threads << " threads, "
                   << taken.registers << " registers, " << taken.spillStores + taken.spillLoads
                   << " bytes spilled, " << taken.shared << " bytes shared\n";
    if (taken.spillStores + taken.spillLoads)
      exec::KernelOp(entry.kernel).emitRemark("spills ")
          << taken.spillStores << " bytes of registers on " << chip.name << ", and loads "
          << taken.spillLoads;
  }
}

LogicalResult lowering::compileForCuda(ModuleOp module, ArrayRef<CudaKernel> kernels,
                                       const CudaOptions &options) {
  auto fail = [&](llvm::Error error) {
    return module.emitError("--compile-kernels: ") << llvm::toString(std::move(error));
  };
  llvm::Expected<gpu::Toolkit> toolkit = gpu::findToolkit();
  if (!toolkit)
    return fail(toolkit.takeError());
  gpu::Compiler compiler;
  std::vector<gpu::Launch> launches;
  llvm::StringMap<Entry> entries;
  for (const CudaKernel &kernel : kernels) {
    llvm::Expected<gpu::Launch> launch = compiler.add(*kernel.program);
    if (!launch)
      return fail(launch.takeError());
    for (const gpu::Launch::Phase &phase : launch->phases)
      entries[phase.entry] = {kernel.kernel, phase.threads};
    launches.push_back(std::move(*launch));
  }
  for (const gpu::Chip &chip : options.chips) {
    llvm::Expected<gpu::Cubin> cubin = compiler.compile(chip, *toolkit);
    if (!cubin)
      return fail(cubin.takeError());
    report(chip, *cubin, entries, options.printResources);
    options.addBinary(chip.name, cubin->image);
  }
  MLIRContext *context = module.getContext();
  for (auto [kernel, launch] : llvm::zip(kernels, launches)) {
    SmallVector<exec::KernelPhaseAttr> phases;
    for (const gpu::Launch::Phase &phase : launch.phases)
      phases.push_back(exec::KernelPhaseAttr::get(context, StringAttr::get(context, phase.entry),
                                                  phase.chunks, phase.threads));
    SmallVector<Attribute> codes;
    exec::KernelOp op = kernel.kernel;
    if (ArrayAttr before = op.getCodeAttr())
      codes.assign(before.begin(), before.end());
    codes.push_back(
        exec::CodeAttr::get(context, exec::Family::Cuda, phases, /*scratch=*/0, launch.partials));
    op.setCodeAttr(ArrayAttr::get(context, codes));
  }
  return success();
}
