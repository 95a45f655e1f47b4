//===- CpuKernels.cpp - compiled kernels on the processor --------------------===//

#include "runtime/kernels/CpuKernels.h"
#include "runtime/aten/Parallel.h"
#include "runtime/io/Error.h"
#include "runtime/kernels/CpuTarget.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void KernelMemory::reserve(int64_t scratchBytes, int64_t partialBytes) {
  int64_t stride = llvm::alignTo(scratchBytes, kLine);
  if (stride > scratchStride) {
    scratchStride = stride;
    grow(std::max(numWorkers, 1));
  }
  if (partialBytes > 0 && partialBytes + kLine > int64_t(partialBlock.size()))
    partialBlock = std::vector<char>(partialBytes + kLine);
}

void KernelMemory::grow(int workers) {
  numWorkers = workers;
  if (scratchStride > 0)
    scratchBlocks = std::vector<char>(workers * scratchStride + kLine);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
class CpuKernel : public CompiledKernel {
public:
  using Entry = void (*)(void *const *tensors, int64_t chunk, void *scratch, void *partials);
  struct Phase {
    Entry entry;
    int64_t chunks;
  };

  CpuKernel(std::shared_ptr<SharedObject> object, KernelMemory &memory)
      : object(std::move(object)), memory(memory) {}

  void launch(void *const *tensors) override {
    memory.prepare(countWorkers());
    void *partials = memory.partials();
    for (const Phase &phase : phases)
      parallelFor(phase.chunks, [&](int64_t begin, int64_t end, int worker) {
        void *scratch = memory.scratch(worker);
        for (int64_t chunk = begin; chunk < end; ++chunk)
          phase.entry(tensors, chunk, scratch, partials);
      });
  }

  std::vector<Phase> phases;

private:
  std::shared_ptr<SharedObject> object; ///< holds the code
  KernelMemory &memory;
};
} // namespace

llvm::Error cleave::runtime::checkKernelTarget(llvm::StringRef target) {
  if (target == "best" || target == "none" || llvm::is_contained(getCpuTargets(), target))
    return llvm::Error::success();
  return makeError("expected --kernels to be best, none, " + llvm::join(getCpuTargets(), ", ") +
                   ", found '" + target + "'");
}

llvm::Expected<exec::BinaryOp> cleave::runtime::chooseCpuBinary(ModuleOp module,
                                                                llvm::StringRef target) {
  if (llvm::Error error = checkKernelTarget(target))
    return error;
  exec::BinaryOp chosen;
  if (target == "none")
    return chosen;
  llvm::SmallVector<llvm::StringRef> inProgram;
  for (auto binary : module.getOps<exec::BinaryOp>()) {
    if (binary.getFamily() != exec::Family::Cpu)
      continue;
    inProgram.push_back(binary.getTarget());
    auto rank = [](exec::BinaryOp op) { return llvm::find(getCpuTargets(), op.getTarget()); };
    bool isWanted = binary.getTarget() == target;
    if (target == "best")
      isWanted = executesCpuTarget(binary.getTarget()) && (!chosen || rank(binary) < rank(chosen));
    if (isWanted)
      chosen = binary;
  }
  if (target == "best" || inProgram.empty())
    return chosen;
  if (!chosen)
    return makeError("--kernels " + target + ": the program's kernels are compiled for " +
                     llvm::join(inProgram, ", ") + " only");
  if (!executesCpuTarget(target))
    return makeError("--kernels " + target + ": this processor does not execute code for it");
  return chosen;
}

llvm::Expected<std::unique_ptr<CpuKernels>> CpuKernels::create(ModuleOp module,
                                                               llvm::StringRef target) {
  llvm::Expected<exec::BinaryOp> binary = chooseCpuBinary(module, target);
  if (!binary)
    return binary.takeError();
  auto kernels = std::make_unique<CpuKernels>();
  kernels->binary = *binary;
  if (*binary)
    kernels->targetName = binary->getTarget();
  return kernels;
}

llvm::Expected<std::unique_ptr<CompiledKernel>> CpuKernels::find(exec::KernelOp kernel) {
  exec::CodeAttr code = kernel.getCodeFor(exec::Family::Cpu);
  if (!binary || !code)
    return nullptr;
  if (!object) {
    auto loaded = SharedObject::load(binary.getBytes());
    if (!loaded)
      return makeError("cannot load exec.binary @" + binary.getSymName() + " for '" +
                       binary.getTarget() + "': " + llvm::toString(loaded.takeError()));
    object = std::move(*loaded);
  }
  auto found = std::make_unique<CpuKernel>(object, shared);
  for (exec::KernelPhaseAttr phase : code.getPhases()) {
    void *entry = object->find(phase.getEntry());
    if (!entry)
      return makeError("exec.kernel @" + kernel.getSymName() + ": exec.binary @" +
                       binary.getSymName() + " for '" + binary.getTarget() + "' has no function '" +
                       phase.getEntry().getValue() + "'");
    found->phases.push_back({reinterpret_cast<CpuKernel::Entry>(entry), phase.getChunks()});
  }
  shared.reserve(code.getScratch(), code.getPartials());
  return found;
}
