//===- StepMemory.cpp - the arena and the frames of a rank --------------------===//

#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "runtime/io/Error.h"
#include "runtime/step/StepContext.h"

#include "llvm/Support/MathExtras.h"

using namespace cleave::runtime;
namespace exec = cleave::exec;

/// One arena serves all lowered functions of this rank: as large as the largest needs it. After it
/// is a frame for each microbatch that is in flight at the same time.
llvm::Error StepContext::allocateArena() {
  int64_t alignment = 1;
  bool isLowered = false;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    if (exec::LoweredAttr lowered = exec::getLowered(part.function); lowered && stages.runs(part)) {
      arenaBytes = std::max(arenaBytes, lowered.getArena());
      alignment = std::max(alignment, lowered.getAlignment());
      isLowered = true;
    }
  arenaBytes = llvm::alignTo(arenaBytes, alignment);
  frames = stages.isScheduled()
               ? planStageFrames(program, stages.place())
               : planFrames(program, options.microbatches, options.weightGradients);
  arena = Arena(device, arenaBytes + frames.bytes, alignment);
  if (!isLowered && options.poisonsDeadMemory)
    return makeError(
        "program '{0}': --check memory expects a lowered program (cleave-opt "
        "--lower-to-exec), whose plan determines dead memory; found one without a plan",
        program.path());
  if (!isLowered && !program.impl().contains<cleave::dist::OffloadOp>())
    return llvm::Error::success();
  ProgramCosts costs = stages.isScheduled()
                           ? computeStageCosts(program, stages.place())
                           : computeCosts(program, options.microbatches, options.weightGradients);
  plannedHostBytes = costs.hostPeakBytes;
  if (!isLowered)
    return llvm::Error::success();
  if (options.poisonsDeadMemory) {
    arena.poison(arenaBytes, frames.bytes);
    frameEnds = findFrameEnds(*program.impl().module);
  }
  plannedBytes = costs.peakBytes;
  // Results are put where they are to lie when it is asked for them.
  return device.followPlans();
}
