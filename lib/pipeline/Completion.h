//===- Completion.h - what runs once per step, added to a schedule -----*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_COMPLETION_H
#define CLEAVE_LIB_PIPELINE_COMPLETION_H

#include "dialects/train/Program.h"
#include "lib/schedule/model/Schedule.h"

namespace cleave::pipeline {

struct CompletionOptions {
  /// Stages of a rank whose parameters are whole at a time; 0: three where stages have an unshard
  /// function.
  unsigned maxUnsharded = 0;
  /// The schedule was not written for this program: what it unshards, reshards or reduces of a
  /// stage that has nothing of the kind is left out.
  bool dropsIdle = false;
};

/// Adds to a schedule, which may have some of them, what the stages need once per step: unshards
/// and reshards, reductions, sums over stages, optimizer steps. Of each kind only what is missing
/// is added, after what is there. A forward-only schedule gets unshards alone. Emits an error at
/// `location` otherwise.
mlir::LogicalResult completeSchedule(llvm::ArrayRef<train::ProgramFunctions> stages,
                                     const CompletionOptions &options, schedule::Schedule &program,
                                     mlir::Location location);

/// Takes out sums over stages, which completeSchedule adds: for forms that have no word for them.
void removeStageSums(schedule::Schedule &program);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_COMPLETION_H
