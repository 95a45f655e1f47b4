//===- SessionMemory.cpp - the arena and the frames of a session --------------===//

#include "dialects/exec/Lowered.h"
#include "runtime/io/Error.h"
#include "runtime/session/SessionImpl.h"

#include "llvm/Support/MathExtras.h"

using namespace cleave::runtime;
namespace exec = cleave::exec;

/// One arena serves all lowered functions of this rank: as large as the largest needs it. Behind it
/// is a frame for each microbatch that is under way at one time.
llvm::Error SessionImpl::makeArena() {
  int64_t alignment = 1;
  bool isLowered = false;
  for (const PhaseFunction &part : program->impl().phaseFunctions)
    if (exec::LoweredAttr lowered = exec::getLowered(part.function); lowered && stages.runs(part)) {
      arenaBytes = std::max(arenaBytes, lowered.getArena());
      alignment = std::max(alignment, lowered.getAlignment());
      isLowered = true;
    }
  arenaBytes = llvm::alignTo(arenaBytes, alignment);
  frames = stages.isScheduled()
               ? planStageFrames(*program, stages.place())
               : planFrames(*program, options.microbatches, options.weightGradients);
  arena = Arena(*device, arenaBytes + frames.bytes, alignment);
  if (!isLowered && options.poisonsDeadMemory)
    return makeError(
        "program '{0}': --check memory expects a lowered program (cleave-opt "
        "--lower-to-exec), whose plan determines dead memory; found one without a plan",
        program->path());
  if (!isLowered)
    return llvm::Error::success();
  if (options.poisonsDeadMemory) {
    arena.poison(arenaBytes, frames.bytes);
    frameEnds = findFrameEnds(*program->impl().module);
  }
  plannedBytes =
      (stages.isScheduled() ? computeStageCosts(*program, stages.place())
                            : computeCosts(*program, options.microbatches, options.weightGradients))
          .peakBytes;
  // Results are put where they are to lie when it is asked for them.
  return device->followPlans();
}

int64_t SessionImpl::frameOffset(int64_t stage, unsigned slot) const {
  const FramePlan::Stage &frame = frames.stages[stage];
  return arenaBytes + frame.offset + slot * frame.frameBytes;
}

/// Instructions know addresses: a function that writes to the microbatch's frame has some for each
/// frame. So has one that reads there, if it is to overwrite what is dead.
unsigned SessionImpl::countExecutors(const PhaseFunction &part) const {
  exec::LoweredAttr lowered = exec::getLowered(part.function);
  if (!lowered || lowered.getFrame() == 0)
    return 1;
  bool writesFrame = llvm::any_of(part.function->getRegion(0).getOps(), [](mlir::Operation &op) {
    return llvm::any_of(op.getResults(), [](mlir::OpResult result) {
      return exec::getResultMemory(result).kind == exec::ResultMemory::Frame;
    });
  });
  // One that the schedule never runs is bound all the same.
  bool knowsFrame = writesFrame || options.poisonsDeadMemory;
  return knowsFrame ? std::max(frames.stages[part.stage].numSlots, 1u) : 1;
}
