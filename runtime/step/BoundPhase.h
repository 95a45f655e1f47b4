//===- BoundPhase.h - the functions of a program, bound ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_BOUNDPHASE_H
#define CLEAVE_RUNTIME_STEP_BOUNDPHASE_H

#include "runtime/exec/Executor.h"
#include "runtime/step/Place.h"

namespace cleave::runtime {

struct MicrobatchState;
struct PhaseFunction;
struct StepContext;

/// A function of the program, bound: its instructions, and where its values come from and go.
struct BoundPhase {
  Phase phase;
  int64_t stage = 0;
  /// One for each frame, if it writes to the microbatch's.
  llvm::SmallVector<std::unique_ptr<Executor>, 1> executors;
  /// No later function of the microbatch needs what is in its frame.
  bool endsFrame = false;
  Executor::Observers observers;
  std::vector<Place> arguments, results;
};

/// The functions that this rank runs.
struct BoundPhases {
  using List = std::vector<std::unique_ptr<BoundPhase>>;
  /// One of each for a program that is not in pipeline stages; `microbatch` in the order of a run.
  List unshard, microbatch, reduce, update;
  /// By index of the program's functions; null if this rank does not run it.
  std::vector<BoundPhase *> byFunction;
};

/// Binds this rank's functions into `context.phases`; the context is complete otherwise.
llvm::Error bindPhases(StepContext &context);

/// Binds one function of the program. `takesFault`: it is the one of `options.check.fault`.
llvm::Expected<std::unique_ptr<BoundPhase>>
bindPhase(StepContext &context, const PhaseFunction &part, bool takesFault = false);

/// Runs a function with the values that its places name, and stores its results there.
llvm::Error runPhase(StepContext &context, BoundPhase &bound, MicrobatchState &microbatch);

/// An error where `bound` is an update whose gradients are not there.
llvm::Error checkGradients(const StepContext &context, const BoundPhase &bound, int64_t step);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_BOUNDPHASE_H
