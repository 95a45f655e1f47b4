//===- StepMemory.cpp - what a step of a program needs ------------------------===//

#include "lib/memory/StepMemory.h"

#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::memory;
using train::RoleKind;

namespace {
/// Goes through the functions in the order in which a step runs them.
class StepPlanner {
public:
  StepPlanner(const train::ProgramFunctions &program, int64_t microbatches)
      : program(program), microbatches(microbatches) {}

  StepMemory run() {
    for (func::FuncOp function : program.getFunctions())
      addState(function);
    auto functions = program.getMicrobatchFunctions();
    for (func::FuncOp function : functions)
      addGradients(function);
    // Gradients stay, whatever else is computed with them.
    int64_t kept = planMemory(functions, /*emptyAccumulators=*/microbatches == 1).resultBytes;
    if (microbatches > 1)
      kept += step.accumulatorBytes;
    if (program.unshard) {
      MemoryPlan plan = planMemory(program.unshard, /*emptyAccumulators=*/false);
      step.unshardedBytes = plan.functions.front().heldBytes;
      addOnce(plan, 0);
    }
    if (func::FuncOp reduce = program.reduce) {
      MemoryPlan plan = planMemory(reduce, /*emptyAccumulators=*/false);
      addOnce(plan, kept);
      kept += plan.resultBytes;
      for (Value argument : reduce.getArguments())
        kept -= getByteSize(argument.getType());
    }
    if (program.update)
      addOnce(planMemory(program.update, /*emptyAccumulators=*/false), kept);
    return step;
  }

private:
  /// What is there all the time, each value once.
  void addState(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      int64_t *bytes = role ? getState(role.getKind()) : nullptr;
      if (bytes && seen.insert(role.getFileName()).second)
        *bytes += getByteSize(argument.getType());
    }
  }

  int64_t *getState(RoleKind kind) {
    switch (kind) {
    case RoleKind::Parameter:
      return &step.parameterBytes;
    case RoleKind::Buffer:
    case RoleKind::Constant:
      return &step.bufferBytes;
    case RoleKind::OptimizerState:
      return &step.optimizerStateBytes;
    case RoleKind::Input:
    case RoleKind::Target:
      return &step.inputBytes;
    default:
      return nullptr;
    }
  }

  void addGradients(func::FuncOp function) {
    for (unsigned index = 0; index < function.getNumResults(); ++index)
      if (train::getResultRole(function, index).getKind() == RoleKind::Gradient)
        step.bucketBytes += getBucketBytes(function, function.getResultTypes()[index]);
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (role && role.getKind() == RoleKind::Accumulator && seen.insert(role.getFileName()).second)
        step.accumulatorBytes += getByteSize(argument.getType());
    }
  }

  void addOnce(const MemoryPlan &plan, int64_t kept) {
    if (step.oncePeakOp && kept + plan.peakBytes <= step.oncePeakBytes)
      return;
    step.oncePeakBytes = kept + plan.peakBytes;
    step.oncePeakOp = plan.peakOp;
  }

  const train::ProgramFunctions &program;
  int64_t microbatches;
  StepMemory step;
  llvm::StringSet<> seen;
};
} // namespace

int64_t cleave::memory::getBucketBytes(func::FuncOp function, Type type) {
  auto bucket = dyn_cast<train::BucketType>(type);
  if (!bucket)
    return 0;
  int64_t bytes = getByteSize(bucket.getFlat());
  auto op = SymbolTable::lookupNearestSymbolFrom<train::BucketOp>(function, bucket.getSymbol());
  return op && op.getScatter() ? bytes + bytes / op.countParts() : bytes;
}

StepMemory cleave::memory::planStep(const train::ProgramFunctions &program, int64_t microbatches) {
  return StepPlanner(program, microbatches).run();
}

int64_t cleave::memory::getMicrobatchPeak(const StepMemory &step, int64_t microbatches,
                                          int64_t firstPeakBytes, int64_t laterPeakBytes) {
  // Gradients so far stay while the next microbatch runs.
  return microbatches == 1 ? firstPeakBytes
                           : std::max(firstPeakBytes, laterPeakBytes + step.accumulatorBytes);
}
