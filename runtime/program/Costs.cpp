//===- Costs.cpp - memory, ops and communication of a program ----------------===//

#include "cleave/Session.h"
#include "dialects/dist/Dist.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/StepMemory.h"
#include "runtime/program/MicrobatchFrames.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/program/StepWork.h"

#include "llvm/ADT/StringSet.h"

using namespace cleave::runtime;
namespace memory = cleave::memory;
namespace train = cleave::train;
using memory::Space;

namespace {
/// Bytes of a step's microbatches, without the state.
struct Microbatches {
  int64_t peak = 0;
  int64_t kept = 0; ///< what all of them leave
};
} // namespace

/// Bytes of a function's arguments with these roles; a bucket's buffer is part of the state.
static int64_t sumBytes(const Program::Impl &impl, Phase phase,
                        std::initializer_list<RoleKind> roles) {
  int64_t bytes = 0;
  for (const ValueInfo &value : impl.signature(phase).arguments)
    if (llvm::is_contained(roles, value.role) && value.members.empty())
      bytes += value.type.numBytes();
  return bytes;
}

static Microbatches planImmediate(const memory::MemoryPlan &first, const memory::MemoryPlan &later,
                                  int64_t microbatches, int64_t accumulators) {
  if (microbatches == 1)
    return {first.peakBytes, first.resultBytes};
  // Gradients so far stay while the next microbatch runs.
  return {std::max(first.peakBytes, later.peakBytes + accumulators),
          later.resultBytes + accumulators};
}

/// All microbatches but the one that runs wait for their weight part, each with what it has saved,
/// its copy of the data and the old values of buffers as far as these are needed.
static Microbatches planDeferred(const Program::Impl &impl, int64_t microbatches,
                                 int64_t accumulators, Space space, ProgramCosts &costs) {
  llvm::StringSet<> updatedBuffers;
  for (const ValueInfo &value : impl.signature(Phase::Microbatch).results)
    if (value.role == RoleKind::Buffer)
      updatedBuffers.insert(value.name);
  auto isOwned = [&](train::RoleAttr role) {
    return role.getKind() == train::RoleKind::Input || role.getKind() == train::RoleKind::Target ||
           (role.getKind() == train::RoleKind::Buffer &&
            updatedBuffers.contains(role.getNameOrEmpty()));
  };
  // Weight parts come last, those of all stages.
  auto functions = impl.functions.getMicrobatchFunctions();
  auto isWeightPart = [](mlir::func::FuncOp function) {
    return function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue() ==
           train::Phase::BackwardWeight;
  };
  std::stable_partition(functions.begin(), functions.end(),
                        [&](mlir::func::FuncOp function) { return !isWeightPart(function); });
  size_t numWeightParts = llvm::count_if(functions, isWeightPart);
  memory::MemoryPlan first =
      memory::planMemory(functions, /*emptyAccumulators=*/true, isOwned, space);
  memory::MemoryPlan later =
      memory::planMemory(functions, /*emptyAccumulators=*/false, isOwned, space);
  int64_t waiting = first.functions[functions.size() - numWeightParts - 1].heldBytes;
  auto peakOfWeightParts = [&](const memory::MemoryPlan &plan) {
    int64_t peak = 0;
    for (const memory::FunctionPlan &part :
         llvm::ArrayRef(plan.functions).take_back(numWeightParts))
      peak = std::max(peak, part.peakBytes);
    return peak;
  };
  costs.deferredBytes = microbatches * waiting;

  bool isDevice = space == Space::Device;
  int64_t gathered = isDevice ? sumBytes(impl, Phase::BackwardInput, {RoleKind::Accumulator}) : 0;
  int64_t peak = peakOfWeightParts(first) + (microbatches - 1) * waiting;
  for (const memory::FunctionPlan &part : llvm::ArrayRef(first.functions).drop_back(numWeightParts))
    peak = std::max(peak, part.peakBytes + gathered + (microbatches - 1) * waiting);
  if (microbatches > 1)
    peak = std::max(peak, peakOfWeightParts(later) + accumulators + (microbatches - 2) * waiting);
  // The state counts the buffers' old values too.
  for (const ValueInfo &value : impl.signature(Phase::Microbatch).results)
    if (value.role == RoleKind::Buffer && isDevice)
      peak -= value.type.numBytes();
  return {peak, planImmediate(first, later, microbatches, accumulators).kept};
}

static Microbatches planMicrobatches(const Program::Impl &impl, int64_t microbatches,
                                     WeightGradients weightGradients, Space space,
                                     ProgramCosts &costs) {
  auto functions = impl.functions.getMicrobatchFunctions();
  memory::MemoryPlan first =
      memory::planMemory(functions, /*emptyAccumulators=*/true, nullptr, space);
  memory::MemoryPlan later =
      memory::planMemory(functions, /*emptyAccumulators=*/false, nullptr, space);
  costs.activationPeakBytes = microbatches == 1 ? first.peakBytes : later.peakBytes;
  if (functions.size() > 1)
    costs.savedBytes =
        first.functions[std::max<size_t>(impl.functions.stages.size(), 1) - 1].heldBytes;
  int64_t accumulators =
      space == Space::Device ? sumBytes(impl, Phase::Microbatch, {RoleKind::Accumulator}) : 0;
  return weightGradients == WeightGradients::Deferred &&
                 llvm::is_contained(impl.microbatchPhases, Phase::BackwardWeight)
             ? planDeferred(impl, microbatches, accumulators, space, costs)
             : planImmediate(first, later, microbatches, accumulators);
}

/// The peak of what is offloaded.
static int64_t planHost(const Program::Impl &impl, int64_t microbatches,
                        WeightGradients weightGradients) {
  if (!impl.contains<cleave::dist::OffloadOp>())
    return 0;
  ProgramCosts ofHost;
  int64_t peak = planMicrobatches(impl, microbatches, weightGradients, Space::Host, ofHost).peak;
  for (const PhaseFunction &part : impl.phaseFunctions) {
    memory::MemoryPlan plan = memory::planMemory(part.function, /*emptyAccumulators=*/false,
                                                 /*owned=*/nullptr, Space::Host);
    if (part.phase == Phase::Unshard)
      peak += plan.functions.front().returnedBytes;
    peak = std::max(peak, plan.peakBytes);
  }
  return peak;
}

ProgramCosts cleave::runtime::computeCosts(const Program &program, int64_t microbatches,
                                           WeightGradients weightGradients) {
  ProgramCosts costs;
  for (const ValueInfo &value : program.weights())
    (value.role == RoleKind::Parameter ? costs.parameterBytes : costs.bufferBytes) +=
        value.type.numBytes();
  for (const ValueInfo &value : program.optimizerStates())
    costs.optimizerStateBytes += value.type.numBytes();
  for (const ValueInfo &value : program.inputs())
    costs.inputBytes += value.type.numBytes();
  for (const ValueInfo &value : program.results(Phase::Microbatch))
    if (value.role == RoleKind::Gradient && value.members.empty())
      costs.gradientBytes += value.type.numBytes();

  const Program::Impl &impl = program.impl();
  // Halves of a backward may add to one bucket.
  llvm::SmallPtrSet<const void *, 8> buckets;
  for (mlir::func::FuncOp function : impl.functions.getMicrobatchFunctions())
    for (mlir::Type type : function.getResultTypes())
      if (buckets.insert(type.getAsOpaquePointer()).second)
        costs.bucketBytes += memory::getBucketBytes(function, type);
  costs.gradientBytes += costs.bucketBytes;
  auto [peak, kept] = planMicrobatches(impl, microbatches, weightGradients, Space::Device, costs);
  StepWork work;
  for (mlir::func::FuncOp function : impl.functions.getMicrobatchFunctions())
    work.add(function, microbatches);
  for (const PhaseFunction &part : impl.phaseFunctions) {
    if (part.phase != Phase::Unshard)
      continue;
    // What it makes stays until the last microbatch has ended.
    memory::MemoryPlan plan = memory::planMemory(part.function, /*emptyAccumulators=*/false);
    costs.gatheredBytes += plan.functions.front().returnedBytes;
    peak = std::max(plan.peakBytes, peak + plan.functions.front().returnedBytes);
    work.add(part.function, 1);
  }
  for (const PhaseFunction &part : impl.phaseFunctions) {
    if (part.phase != Phase::Reduce)
      continue;
    memory::MemoryPlan plan = memory::planMemory(part.function, /*emptyAccumulators=*/false);
    peak = std::max(peak, kept + plan.peakBytes);
    kept += plan.resultBytes;
    for (const ValueInfo &value : part.signature.arguments)
      kept -= value.members.empty() ? value.type.numBytes() : 0;
    work.add(part.function, 1);
  }
  for (const PhaseFunction &part : impl.phaseFunctions) {
    if (part.phase != Phase::Update)
      continue;
    memory::MemoryPlan plan = memory::planMemory(part.function, /*emptyAccumulators=*/false);
    peak = std::max(peak, kept + plan.peakBytes);
    work.add(part.function, 1);
  }
  costs.stateBytes = costs.parameterBytes + costs.bufferBytes + costs.optimizerStateBytes +
                     costs.inputBytes + costs.bucketBytes;
  costs.arenaBytes = memory::getArenaBytes(impl.functions.getFunctions());
  costs.frameBytes = planFrames(program, microbatches, weightGradients).bytes;
  costs.peakBytes = costs.stateBytes + costs.arenaBytes + costs.frameBytes + peak;
  costs.hostPeakBytes = planHost(impl, microbatches, weightGradients);
  work.writeTo(costs);
  return costs;
}
