//===- StepRunner.h - how a session runs its steps -----------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_STEPRUNNER_H
#define CLEAVE_RUNTIME_STEP_STEPRUNNER_H

#include "cleave/Session.h"

namespace at {
class Tensor;
}

namespace cleave::runtime {

/// Runs the steps of one session, in one of three ways: SequentialRunner function after function,
/// RecordedRunner as graphs of a device, ScheduledRunner by the program's schedule. Callbacks are
/// as Session::runMicrobatches has them. Each call ends what callers see of the state first.
class StepRunner {
public:
  virtual ~StepRunner();

  /// One microbatch of a step, in order. Fails if all of a step run together.
  virtual llvm::Error runMicrobatch(int64_t step, int64_t index) = 0;
  /// Everything of a step but its update.
  virtual llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill,
                                      MicrobatchCallback done) = 0;
  virtual llvm::Error runUpdate(int64_t step) = 0;
  /// Both.
  virtual llvm::Error runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);

  /// Gives parameters that stages on several ranks take the values that they have where they are
  /// updated.
  virtual llvm::Error shareWeights();

  /// The loss of the microbatch that `done` was called for last, where the runner puts it into
  /// page-locked memory of the host; else undefined: it is among the results.
  virtual at::Tensor stagedLoss() const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_STEPRUNNER_H
