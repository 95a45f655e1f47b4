//===- Optimize.cpp - LLVM IR of GPU kernels to PTX -------------------------------===//

#include "lib/kernels/gpu/Optimize.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"

#include <mutex>

using namespace cleave::kernels;
using llvm::createStringError;

/// LLVM's back end for the chip. Error: this LLVM was built without it.
static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const gpu::Chip &chip) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError("compiling for a GPU needs LLVM's NVPTX back end: " + message);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, chip.name, chip.ptxFeature, options, std::nullopt,
                                  std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

static llvm::SmallVector<llvm::StringRef> listUndefined(const llvm::Module &module) {
  llvm::SmallVector<llvm::StringRef> names;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
        function.getName() != "__nvvm_reflect")
      names.push_back(function.getName());
  return names;
}

/// Adds the definitions that `module` lacks, as functions of its own.
static llvm::Error linkLibdevice(llvm::Module &module, llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError("cannot read libdevice at " + path + ": " +
                             buffer.getError().message());
  auto library = llvm::parseBitcodeFile(**buffer, module.getContext());
  if (!library)
    return createStringError("cannot read libdevice at " + path + ": " +
                             llvm::toString(library.takeError()));
  // It names a triple of its own ("gpulibs"); the linker would warn of it on standard error.
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  auto internalize = [](llvm::Module &linked, const llvm::StringSet<> &added) {
    llvm::internalizeModule(linked, [&](const llvm::GlobalValue &value) {
      return !value.hasName() || !added.contains(value.getName());
    });
  };
  if (llvm::Linker(module).linkInModule(std::move(*library), llvm::Linker::LinkOnlyNeeded,
                                        internalize))
    return createStringError("cannot link libdevice at " + path);
  return llvm::Error::success();
}

/// libdevice asks how precise it shall be by calls of `__nvvm_reflect` with a name. LLVM's pass
/// answers only what it knows, and takes square roots to be approximate.
static void resolveReflection(llvm::Module &module, const gpu::Chip &chip) {
  llvm::Function *reflect = module.getFunction("__nvvm_reflect");
  if (!reflect)
    return;
  for (llvm::User *user : llvm::make_early_inc_range(reflect->users())) {
    auto *call = llvm::cast<llvm::CallInst>(user);
    llvm::StringRef name;
    llvm::getConstantStringInfo(call->getArgOperand(0), name);
    unsigned value = name == "__CUDA_ARCH"        ? chip.capability * 10
                     : name == "__CUDA_PREC_SQRT" ? 1
                     : name == "__CUDA_PREC_DIV"  ? 1
                                                  : 0; // __CUDA_FTZ: denormals stay
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), value));
    call->eraseFromParent();
  }
  reflect->eraseFromParent();
}

llvm::Error gpu::optimizeForGpu(llvm::Module &module, const Chip &chip, llvm::StringRef libdevice) {
  auto machine = createTargetMachine(chip);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());

  if (!listUndefined(module).empty())
    if (llvm::Error error = linkLibdevice(module, libdevice))
      return error;
  if (auto missing = listUndefined(module); !missing.empty())
    return createStringError("no device function '" + llvm::join(missing, "', '") +
                             "' in libdevice at " + libdevice);
  resolveReflection(module, chip);

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine->get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
  return llvm::Error::success();
}

llvm::Expected<std::string> gpu::emitPtx(llvm::Module &module, const Chip &chip) {
  auto machine = createTargetMachine(chip);
  if (!machine)
    return machine.takeError();
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return createStringError("LLVM's NVPTX back end cannot write PTX for " + chip.name);
  passes.run(module);
  return ptx.str().str();
}
