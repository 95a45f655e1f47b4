//===- Costs.cpp - memory, ops and communication of a program ----------------===//

#include "cleave/Session.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "runtime/program/MemoryPlan.h"

#include "llvm/ADT/StringMap.h"

using namespace cleave::runtime;

/// `aten.mm`; calls by what they call: `aten::roll`.
static std::string nameOf(mlir::Operation *op) {
  if (op->getName().getStringRef() == "aten.call")
    return cast<cleave::aten::AtenOpInterface>(op).getSchemaName().str();
  return op->getName().getStringRef().str();
}

static void countOps(mlir::func::FuncOp function, int64_t runs, llvm::StringMap<int64_t> &counts,
                     ProgramCosts &costs) {
  for (mlir::Operation &op : function.front().without_terminator()) {
    ++counts[nameOf(&op)];
    if (auto reduce = llvm::dyn_cast<cleave::dist::AllReduceOp>(op)) {
      costs.collectives += runs;
      for (mlir::Value input : reduce.getInputs())
        costs.collectiveBytes += runs * toTensorType(input.getType()).numBytes();
    }
  }
}

ProgramCosts cleave::runtime::computeCosts(const Program &program, int64_t microbatches) {
  ProgramCosts costs;
  for (const ValueInfo &value : program.weights())
    (value.role == RoleKind::Parameter ? costs.parameterBytes : costs.bufferBytes) +=
        value.type.numBytes();
  for (const ValueInfo &value : program.optimizerStates())
    costs.optimizerStateBytes += value.type.numBytes();
  for (const ValueInfo &value : program.inputs())
    costs.inputBytes += value.type.numBytes();
  int64_t accumulators = 0;
  for (const ValueInfo &value : program.arguments(Phase::Microbatch))
    if (value.role == RoleKind::Accumulator)
      accumulators += value.type.numBytes();
  for (const ValueInfo &value : program.results(Phase::Microbatch))
    if (value.role == RoleKind::Gradient)
      costs.gradientBytes += value.type.numBytes();

  const Program::Impl &impl = program.impl();
  MemoryPlan first = planMemory(impl.functions.microbatch, /*emptyAccumulators=*/true);
  int64_t microbatchPeak = first.peakBytes, kept = first.resultBytes;
  costs.activationPeakBytes = first.peakBytes;
  if (microbatches > 1) {
    // Gradients so far stay while the next microbatch runs.
    MemoryPlan later = planMemory(impl.functions.microbatch, /*emptyAccumulators=*/false);
    costs.activationPeakBytes = later.peakBytes;
    microbatchPeak = std::max(first.peakBytes, later.peakBytes + accumulators);
    kept = later.resultBytes + accumulators;
  }
  int64_t updatePeak = 0;
  llvm::StringMap<int64_t> counts;
  countOps(impl.functions.microbatch, microbatches, counts, costs);
  if (program.hasUpdate()) {
    updatePeak = kept + planMemory(impl.functions.update, /*emptyAccumulators=*/false).peakBytes;
    countOps(impl.functions.update, 1, counts, costs);
  }
  costs.stateBytes =
      costs.parameterBytes + costs.bufferBytes + costs.optimizerStateBytes + costs.inputBytes;
  costs.peakBytes = costs.stateBytes + std::max(microbatchPeak, updatePeak);
  for (const auto &entry : counts)
    costs.ops.emplace_back(entry.first().str(), entry.second);
  llvm::sort(costs.ops, [](const auto &a, const auto &b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  return costs;
}
