//===- Compiler.cpp - row programs to GPU code -----------------------------------------------===//

#include "lib/kernels/gpu/Compiler.h"
#include "lib/kernels/gpu/Emitter.h"
#include "lib/kernels/gpu/Optimize.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"

using namespace mlir;
using namespace cleave::kernels;
using namespace cleave::kernels::gpu;
using llvm::createStringError;

Compiler::Compiler() : context(MLIRContext::Threading::DISABLED) {
  registerBuiltinDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  registerNVVMDialectTranslation(context);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect,
                      NVVM::NVVMDialect, scf::SCFDialect>();
  module = ModuleOp::create(UnknownLoc::get(&context));
}

llvm::Expected<Launch> Compiler::add(const RowProgram &program) {
  RowProgram flat = flatten(program);
  Plan plan = makePlan(flat);
  Launch launch;
  launch.partials = plan.partialBytes;
  for (const Plan::Phase &phase : plan.phases)
    if (phase.rows)
      launch.phases.push_back(
          {phase.rows->entry, phase.rows->mapping.chunks(), phase.rows->mapping.threads});
    else
      launch.phases.push_back({phase.finish->entry, phase.finish->chunks, phase.finish->threads});
  for (const Launch::Phase &phase : launch.phases)
    if (phase.chunks >= int64_t(1) << 31)
      return createStringError("kernel '" + program.name + "' would need " +
                               llvm::Twine(phase.chunks) + " blocks: grids have fewer than 2^31");
  emitKernel(flat, plan, *module);
  return launch;
}

llvm::Expected<std::unique_ptr<llvm::Module>>
Compiler::translate(llvm::LLVMContext &llvmContext, const Chip &chip, llvm::StringRef libdevice) {
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> lowered = module->clone();
  PassManager passes(&context);
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  std::unique_ptr<llvm::Module> translated;
  if (succeeded(mlir::verify(*module)) && succeeded(passes.run(*lowered)))
    translated = translateModuleToLLVMIR(*lowered, llvmContext, "kernels");
  if (!translated)
    return createStringError("cannot translate kernels to LLVM IR: " + message);
  if (llvm::Error error = optimizeForGpu(*translated, chip, libdevice))
    return error;
  return translated;
}

llvm::Expected<Cubin> Compiler::compile(const Chip &chip, const Toolkit &toolkit) {
  llvm::LLVMContext llvmContext;
  auto translated = translate(llvmContext, chip, toolkit.libdevice);
  if (!translated)
    return translated.takeError();
  auto ptx = emitPtx(**translated, chip);
  if (!ptx)
    return ptx.takeError();
  return assemblePtx(*ptx, chip, toolkit.ptxas);
}
