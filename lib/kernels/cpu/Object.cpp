//===- Object.cpp - from kernels to a shared object --------------------------===//

#include "lib/kernels/cpu/Object.h"
#include "lib/kernels/cpu/Link.h"
#include "lib/kernels/cpu/NarrowFloats.h"
#include "lib/kernels/cpu/VectorMath.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace cleave::kernels;

/// Kernels are compiled in a context of their own, so that targets can be compiled at once.
static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registry.insert<LLVM::LLVMDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  cf::ControlFlowDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

static LogicalResult lowerToLLVM(ModuleOp module, const CpuTarget &cpu) {
  lowerVectorMath(module, cpu);
  expandNarrowFloats(module, cpu.hasHalf);
  MLIRContext *context = module.getContext();
  LLVMTypeConverter converter(context);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  // The lanes of accumulators may be added in any order.
  populateVectorToLLVMConversionPatterns(converter, patterns, /*reassociateFPReductions=*/true);
  return applyFullConversion(module, target, std::move(patterns));
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeMachine(const CpuTarget &target, const llvm::Triple &triple) {
  // Threads that register a back end at once register it twice.
  static std::once_flag isRegistered;
  std::call_once(isRegistered, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return llvm::createStringError("cannot compile for " + target.name + ": " + error);
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target.name, "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions options;
  // Loops are vectors already, and unrolled as far as their reductions profit.
  options.LoopVectorization = false;
  options.SLPVectorization = false;
  options.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, options);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

llvm::Expected<std::vector<char>>
cleave::kernels::compileForCpu(llvm::ArrayRef<const CpuKernel *> kernels, const CpuTarget &target,
                               std::string *assembly) {
  MLIRContext context(makeRegistry(), MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (const CpuKernel *kernel : kernels)
    emitCpuKernel(*module, kernel->program, kernel->plan, kernel->entries, target);
  auto failed = [&](llvm::StringRef step) {
    return llvm::createStringError("kernels for " + target.name + ": " + step + " failed");
  };
  if (mlir::failed(verify(*module)))
    return failed("emitting them");
  if (mlir::failed(lowerToLLVM(*module, target)))
    return failed("lowering them to LLVM");
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(*module, llvmContext, "kernels");
  if (!code)
    return failed("translating them to LLVM IR");

  llvm::Triple triple("x86_64-unknown-linux-gnu");
  auto machine = makeMachine(target, triple);
  if (!machine)
    return machine.takeError();
  code->setTargetTriple(triple);
  code->setDataLayout((*machine)->createDataLayout());
  optimize(*code, **machine);

  llvm::SmallVector<char> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager emission;
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if ((*machine)->addPassesToEmitFile(emission, os, nullptr, kind))
    return failed("emitting machine code");
  emission.run(*code);
  if (assembly) {
    assembly->assign(object.data(), object.size());
    return std::vector<char>();
  }
  return linkShared(object);
}
