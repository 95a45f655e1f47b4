//===- MicrobatchFrames.cpp - the frames of microbatches in flight --------===//

#include "runtime/program/MicrobatchFrames.h"
#include "dialects/exec/Lowered.h"
#include "lib/schedule/model/Slots.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace cleave::runtime;
namespace exec = cleave::exec;
namespace schedule = cleave::schedule;

/// Stages with the size of their frames.
static MicrobatchFrames readSizes(const Program::Impl &impl) {
  MicrobatchFrames plan;
  plan.stages.resize(std::max<size_t>(impl.functions.stages.size(), 1));
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (exec::LoweredAttr lowered = exec::getLowered(part.function)) {
      int64_t &bytes = plan.stages[part.stage].frameBytes;
      bytes = std::max<int64_t>(
          bytes, llvm::alignTo(uint64_t(lowered.getFrame()), uint64_t(lowered.getAlignment())));
    }
  return plan;
}

static MicrobatchFrames layOut(MicrobatchFrames plan) {
  for (MicrobatchFrames::Stage &stage : plan.stages) {
    stage.offset = plan.bytes;
    plan.bytes += stage.frameBytes * stage.numSlots;
  }
  return plan;
}

MicrobatchFrames cleave::runtime::planFrames(const Program &program, int64_t microbatches,
                                             WeightGradients weightGradients) {
  const Program::Impl &impl = program.impl();
  MicrobatchFrames plan = readSizes(impl);
  bool areDeferred = weightGradients == WeightGradients::Deferred &&
                     llvm::is_contained(impl.microbatchPhases, Phase::BackwardWeight);
  for (MicrobatchFrames::Stage &stage : plan.stages) {
    stage.numSlots = areDeferred ? unsigned(microbatches) : 1;
    if (!areDeferred)
      continue;
    stage.slots.resize(microbatches);
    std::iota(stage.slots.begin(), stage.slots.end(), 0);
  }
  return layOut(std::move(plan));
}

MicrobatchFrames cleave::runtime::planStageFrames(const Program &program, int64_t place) {
  const Program::Impl &impl = program.impl();
  MicrobatchFrames plan = readSizes(impl);
  schedule::FrameSlots slots = schedule::assignFrameSlots(impl.schedule->program, unsigned(place));
  for (auto [index, stage] : llvm::enumerate(plan.stages)) {
    stage.numSlots = slots.numSlots[index];
    stage.slots = std::move(slots.slots[index]);
  }
  return layOut(std::move(plan));
}
