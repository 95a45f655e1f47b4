//===- Form.cpp - what form a program has, beyond its signature ------------===//

#include "runtime/program/Form.h"
#include "dialects/exec/Exec.h"
#include "dialects/exec/Lowered.h"
#include "dialects/train/Program.h"
#include "dialects/train/StateDict.h"
#include "runtime/program/ProgramImpl.h"

using namespace cleave;
using namespace cleave::runtime;

bool cleave::runtime::isLowered(const Program &program) {
  return llvm::any_of(program.impl().phaseFunctions, [](const PhaseFunction &part) {
    return bool(exec::getLowered(part.function));
  });
}

bool cleave::runtime::hasKernels(const Program &program) {
  mlir::ModuleOp module = *program.impl().module;
  return !module.getOps<exec::KernelOp>().empty();
}

bool cleave::runtime::hasTargetMean(const Program &program) {
  mlir::ModuleOp module = *program.impl().module;
  return module->hasAttr(train::kMeanOverAttrName);
}

std::optional<LossScaling> cleave::runtime::findLossScaling(const Program &program) {
  mlir::ModuleOp module = *program.impl().module;
  auto rule = module->getAttrOfType<train::LossScalingAttr>(train::kLossScalingAttrName);
  if (!rule)
    return std::nullopt;
  return LossScaling{rule.getInit().getValueAsDouble(), rule.getGrowth().getValueAsDouble(),
                     rule.getBackoff().getValueAsDouble(), rule.getInterval()};
}

static llvm::StringSet<> namesIn(const Program &program, llvm::StringRef attribute) {
  llvm::StringSet<> names;
  mlir::ModuleOp module = *program.impl().module;
  if (auto list = module->getAttrOfType<mlir::ArrayAttr>(attribute))
    for (llvm::StringRef name : list.getAsValueRange<mlir::StringAttr>())
      names.insert(name);
  return names;
}

llvm::StringSet<> cleave::runtime::listTransientBuffers(const Program &program) {
  return namesIn(program, train::kTransientAttrName);
}

llvm::StringSet<> cleave::runtime::listLossState(const Program &program) {
  return namesIn(program, train::kLossStateAttrName);
}
