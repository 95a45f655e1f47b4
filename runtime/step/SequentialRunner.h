//===- SequentialRunner.h - runs a step function after function ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_SEQUENTIALRUNNER_H
#define CLEAVE_RUNTIME_STEP_SEQUENTIALRUNNER_H

#include "runtime/step/StepContext.h"
#include "runtime/step/StepRunner.h"

namespace cleave::runtime {

/// Runs a step's functions one after the other, microbatch by microbatch: on a rank that has the
/// whole program, stages included. Deferred weight gradients follow the last microbatch.
class SequentialRunner : public StepRunner {
public:
  /// `offsetsAreAdded`: a microbatch's random numbers begin at its distance from what is in
  /// `StepState::rngOffset`, so that a recorded step can be replayed with another offset there.
  explicit SequentialRunner(StepContext &context, bool offsetsAreAdded = false)
      : context(context), offsetsAreAdded(offsetsAreAdded) {}

  llvm::Error runMicrobatch(int64_t step, int64_t index) override;
  llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill,
                              MicrobatchCallback done) override;
  llvm::Error runUpdate(int64_t step) override;

private:
  MicrobatchState beginMicrobatch(int64_t step, int64_t index);
  at::Tensor placeOffset(int64_t step, int64_t index);
  /// What waits for the last microbatch: deferred weight gradients, and the reduction of gradients.
  llvm::Error finishMicrobatches();
  llvm::Error run(BoundPhase &bound, MicrobatchState &microbatch);
  void report(const BoundPhase &bound, int64_t microbatch, int64_t begin);

  StepContext &context;
  bool offsetsAreAdded;
  /// Microbatches whose weight part has still to run.
  std::vector<MicrobatchState> waiting;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_SEQUENTIALRUNNER_H
