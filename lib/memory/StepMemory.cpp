//===- StepMemory.cpp - what a step of a program needs ------------------------===//

#include "lib/memory/StepMemory.h"

#include "lib/memory/MemoryPlan.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::memory;

namespace {
/// Goes through the functions in the order in which a step runs them.
class StepPlanner {
public:
  StepPlanner(const train::ProgramFunctions &program, int64_t microbatches)
      : program(program), microbatches(microbatches) {}

  StepMemory run() {
    for (func::FuncOp function : program.getFunctions())
      step.state.add(function);
    auto functions = program.getMicrobatchFunctions();
    // Gradients stay, whatever else is computed with them.
    int64_t kept = planMemory(functions, /*emptyAccumulators=*/microbatches == 1).resultBytes;
    if (microbatches > 1)
      kept += step.state.gradientBytes;
    if (program.unshard) {
      MemoryPlan plan = planMemory(program.unshard, /*emptyAccumulators=*/false);
      step.unshardedBytes = plan.functions.front().returnedBytes;
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
  void addOnce(const MemoryPlan &plan, int64_t kept) {
    if (step.oncePeakOp && kept + plan.peakBytes <= step.oncePeakBytes)
      return;
    step.oncePeakBytes = kept + plan.peakBytes;
    step.oncePeakOp = plan.peakOp;
  }

  const train::ProgramFunctions &program;
  int64_t microbatches;
  StepMemory step;
};
} // namespace

StepMemory cleave::memory::planStep(const train::ProgramFunctions &program, int64_t microbatches) {
  return StepPlanner(program, microbatches).run();
}

int64_t cleave::memory::getMicrobatchPeak(const StepMemory &step, int64_t microbatches,
                                          int64_t firstPeakBytes, int64_t laterPeakBytes) {
  // Gradients so far stay while the next microbatch runs.
  return microbatches == 1 ? firstPeakBytes
                           : std::max(firstPeakBytes, laterPeakBytes + step.state.gradientBytes);
}
