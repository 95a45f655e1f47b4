//===- StepContext.h - what the runners of a session's steps share -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_STEPCONTEXT_H
#define CLEAVE_RUNTIME_STEP_STEPCONTEXT_H

#include "runtime/exec/Binder.h"
#include "runtime/exec/RandomStream.h"
#include "runtime/kernels/CompiledKernels.h"
#include "runtime/program/Form.h"
#include "runtime/program/MicrobatchFrames.h"
#include "runtime/ranks/RankGrid.h"
#include "runtime/step/ActionReporter.h"
#include "runtime/step/BoundPhase.h"
#include "runtime/step/StepState.h"

namespace cleave::runtime {

/// What the runners of a session's steps share. The session owns it and completes it before it
/// makes a runner; from then on only `state`, `rateReductions`, `lossScale`, `drawsBefore`, and the
/// contents of `buckets`, `random` and `phases`, change.
struct StepContext {
  StepContext(const Program &program, const SessionOptions &options);

  const Program &program;
  const SessionOptions options;
  Device &device;
  /// The ranks on the program's mesh, and what of the program is on this one.
  std::unique_ptr<RankGrid> ranks;
  StageMap stages;
  /// This rank's part of a step's batch.
  Session::BatchPart part;

  PlaceIndex places;
  StepState state;
  BucketSet buckets;
  RandomStream random;
  /// How often a plateau has reduced learning rates.
  int64_t rateReductions = 0;
  /// Session::setDrawsBefore.
  std::optional<int64_t> drawsBefore;
  /// Services::learningRates; an entry for each parameter group that the program names.
  std::vector<double> learningRates;
  std::unique_ptr<KernelSource> kernels;

  /// The memory of lowered functions: what they use in turn, of `arenaBytes` bytes, and after it
  /// the frames of microbatches. `frameEnds` says where dead memory is to be overwritten.
  Arena arena;
  int64_t arenaBytes = 0;
  MicrobatchFrames frames;
  FrameEnds frameEnds;
  /// Peak bytes of a step, as planned; set if the program is lowered.
  std::optional<int64_t> plannedBytes;
  /// The same of what is offloaded, lowered or not.
  int64_t plannedHostBytes = 0;

  /// What bound instructions refer to: pointers to the above.
  Services services;
  BoundPhases phases;
  ActionReporter reporter;

  bool isDeferred() const { return options.weightGradients == WeightGradients::Deferred; }
  /// The microbatches of a step on all ranks.
  int64_t totalMicrobatches() const { return options.microbatches * part.count; }
  /// Where the random numbers of this rank's microbatch `index` begin in the program's stream.
  int64_t randomOffset(int64_t step, int64_t index) const {
    int64_t number = part.index * options.microbatches + index;
    return stepOffset(step) + number * program.draws();
  }
  /// The draws of all steps before this one.
  int64_t stepOffset(int64_t step) const {
    return drawsBefore.value_or((step - 1) * totalMicrobatches() * program.draws());
  }
  /// Bytes from the arena's beginning to a frame of a stage.
  int64_t frameOffset(int64_t stage, unsigned slot) const {
    const MicrobatchFrames::Stage &frame = frames.stages[stage];
    return arenaBytes + frame.offset + slot * frame.frameBytes;
  }

  /// Session::setLossSeeds.
  std::vector<double> lossSeeds;

  /// Session::lossScale, and the rule by which updates change it.
  std::optional<LossScale> lossScale;
  LossScaling lossScaling;
  /// Steps of the run without an update: LossScale::skipped, also of a scale that the run had
  /// before a program without one went on with it.
  int64_t skippedSteps = 0;
  /// Whether gradients of this step are not finite, so that its update is skipped. Known once the
  /// step's reduce functions have run; may throw.
  bool isSkipped() const;
  /// Session::setLossScale. May throw.
  void setLossScale(const LossScale &scale);
  /// What the step that has been updated, or skipped, makes of the scale. May throw.
  void adjustLossScale();
  /// The number of a step for its update.
  int64_t updateNumber(int64_t step) const { return step - skippedSteps; }

  /// Allocates the arena and the frames of the functions that this rank runs.
  llvm::Error allocateArena();
  /// Gives microbatches the gradients of the loss that they start from. A recorded step reads them
  /// where they are: so it is not part of one. May throw.
  void fillSeeds();
  /// Sets what is the same for all microbatches of a step. May throw.
  void beginStep(int64_t step);
  /// A new tensor with `randomOffset`, as functions read it. May throw.
  at::Tensor makeOffset(int64_t step, int64_t index) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_STEPCONTEXT_H
