//===- CompileKernels.cpp - --compile-kernels --------------------------------===//

#include "dialects/exec/Exec.h"
#include "lib/kernels/cpu/Link.h"
#include "lib/kernels/cpu/Object.h"
#include "passes/lowering/CompileForCuda.h"
#include "passes/lowering/Passes.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ThreadPool.h"

namespace cleave::lowering {
#define GEN_PASS_DEF_COMPILEKERNELS
#include "passes/lowering/Passes.h.inc"
} // namespace cleave::lowering

using namespace mlir;
using namespace cleave;
using kernels::CpuKernel;
using kernels::CpuTarget;
using kernels::RowProgram;

namespace {

class CompileKernels : public lowering::impl::CompileKernelsBase<CompileKernels> {
public:
  using CompileKernelsBase::CompileKernelsBase;

  void runOnOperation() override {
    if (failed(compile()))
      signalPassFailure();
  }

private:
  /// A kernel with a row program.
  struct Compilable {
    exec::KernelOp kernel;
    RowProgram program;
  };

  LogicalResult compile();
  FailureOr<SmallVector<const CpuTarget *>> findCpuTargets();
  void forget();
  void findPrograms();
  LogicalResult compileForCpu(ArrayRef<const CpuTarget *> targets);
  void addBinary(StringRef target, ArrayRef<char> bytes);

  std::vector<Compilable> compilables;
};

/// The plan of a program for CPUs: chunks so large that starting one costs nothing, and so many
/// that every core of a large machine has one.
CpuKernel planForCpu(const RowProgram &program, llvm::StringSet<> &names) {
  CpuKernel kernel;
  kernel.program = kernels::flatten(program);
  kernel.plan = kernels::planKernel(kernel.program, {});
  for (const kernels::Phase &phase : kernel.plan.phases) {
    std::string name = program.name + (phase.isFinish ? "_finish" : "");
    while (kernels::isLibraryFunction(name) || !names.insert(name).second)
      name += "_";
    kernel.entries.push_back(name);
  }
  return kernel;
}

} // namespace

FailureOr<SmallVector<const CpuTarget *>> CompileKernels::findCpuTargets() {
  SmallVector<const CpuTarget *> targets;
  if (cpu.empty())
    for (const CpuTarget &target : kernels::getCpuTargets())
      targets.push_back(&target);
  for (const std::string &name : cpu) {
    if (name == "none")
      continue;
    const CpuTarget *target = kernels::findCpuTarget(name);
    if (!target) {
      InFlightDiagnostic error = getOperation().emitError();
      error << "--compile-kernels: expects cpu to be 'none' or of";
      for (const CpuTarget &known : kernels::getCpuTargets())
        error << " '" << known.name << "'";
      error << ", found '" << name << "'";
      return failure();
    }
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  return targets;
}

/// What was compiled before.
void CompileKernels::forget() {
  for (auto binary : llvm::make_early_inc_range(getOperation().getOps<exec::BinaryOp>()))
    binary.erase();
  for (auto kernel : getOperation().getOps<exec::KernelOp>())
    kernel.removeCodeAttr();
}

void CompileKernels::findPrograms() {
  for (auto kernel : getOperation().getOps<exec::KernelOp>()) {
    kernels::Unsupported why;
    std::optional<RowProgram> program = kernels::buildRowProgram(kernel, why);
    if (program) {
      if (printPrograms)
        program->print(llvm::outs());
      compilables.push_back({kernel, std::move(*program)});
      continue;
    }
    ++numLeftOut;
    InFlightDiagnostic remark = kernel.emitRemark("is not compiled: its ops run one by one");
    if (!why.op)
      remark << ", since it has " << why.reason;
    else
      remark.attachNote(why.op->getLoc()) << "'" << why.op->getName() << "' " << why.reason;
  }
}

void CompileKernels::addBinary(StringRef target, ArrayRef<char> bytes) {
  OpBuilder b = OpBuilder::atBlockBegin(getOperation().getBody());
  std::string name = "kernels_" + target.str();
  llvm::replace(name, '-', '_');
  auto type = RankedTensorType::get({int64_t(bytes.size())}, b.getI8Type());
  auto code = DenseResourceElementsAttr::get(
      type, name, HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, /*align=*/64));
  auto format = target.starts_with("sm_") ? exec::BinaryFormat::Cubin : exec::BinaryFormat::Elf;
  auto binary = exec::BinaryOp::create(b, getOperation().getLoc(), name, format, target, code);
  SymbolTable(getOperation()).insert(binary);
}

LogicalResult CompileKernels::compileForCpu(ArrayRef<const CpuTarget *> targets) {
  llvm::StringSet<> names;
  std::vector<CpuKernel> kernels;
  for (const Compilable &compilable : compilables)
    kernels.push_back(planForCpu(compilable.program, names));
  std::vector<const CpuKernel *> pointers;
  for (const CpuKernel &kernel : kernels)
    pointers.push_back(&kernel);

  std::vector<std::vector<char>> binaries(targets.size());
  std::vector<std::string> errors(targets.size()), texts(targets.size());
  auto compileOne = [&](size_t i) {
    auto code = kernels::compileForCpu(pointers, *targets[i], printAssembly ? &texts[i] : nullptr);
    if (code)
      binaries[i] = std::move(*code);
    else
      errors[i] = llvm::toString(code.takeError());
  };
  {
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(2));
    for (size_t i = 0; i < targets.size(); ++i)
      pool.async(compileOne, i);
    pool.wait();
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!errors[i].empty())
      return getOperation().emitError("--compile-kernels: ") << errors[i];
    if (printAssembly)
      llvm::outs() << texts[i];
    else
      addBinary(targets[i]->name, binaries[i]);
  }
  if (printAssembly)
    return success();
  MLIRContext *context = &getContext();
  for (auto [compilable, kernel] : llvm::zip(compilables, kernels)) {
    SmallVector<exec::KernelPhaseAttr> phases;
    for (auto [phase, entry] : llvm::zip(kernel.plan.phases, kernel.entries))
      phases.push_back(exec::KernelPhaseAttr::get(context, StringAttr::get(context, entry),
                                                  phase.chunks, /*threads=*/0));
    auto code = exec::CodeAttr::get(context, exec::Family::Cpu, phases, kernel.plan.scratchBytes,
                                    kernel.plan.partialBytes);
    compilable.kernel.setCodeAttr(ArrayAttr::get(context, Attribute(code)));
  }
  return success();
}

LogicalResult CompileKernels::compile() {
  FailureOr<SmallVector<const CpuTarget *>> targets = findCpuTargets();
  auto chips = lowering::findCudaChips(getOperation(), cuda);
  if (failed(targets) || failed(chips))
    return failure();
  forget();
  compilables.clear();
  findPrograms();
  numCompiled += compilables.size();
  if (compilables.empty())
    return success();
  if (!targets->empty() && failed(compileForCpu(*targets)))
    return failure();
  if (chips->empty() || printAssembly)
    return success();
  SmallVector<lowering::CudaKernel> kernels;
  for (const Compilable &compilable : compilables)
    kernels.push_back({compilable.kernel, &compilable.program});
  auto add = [&](StringRef chip, ArrayRef<char> image) { addBinary(chip, image); };
  return lowering::compileForCuda(getOperation(), kernels, {*chips, printResources, add});
}
