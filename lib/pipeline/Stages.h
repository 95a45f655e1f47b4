//===- Stages.h - a program's stages against a schedule --------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGES_H
#define CLEAVE_LIB_PIPELINE_STAGES_H

#include "dialects/train/Program.h"
#include "lib/schedule/Program.h"

namespace cleave::pipeline {

/// The functions of each stage, from the first stage to the last; none where the module has no
/// program in stages. Emits an error where the program is not sound (train::getProgram): a stage is
/// missing, a stage's output is not its successor's input, ...
mlir::FailureOr<std::vector<train::Program>> getStages(mlir::ModuleOp module);

/// What the stages have that runs once a step.
struct OncePerStep {
  /// Gradient buckets of each stage: 1 where it has a reduce function. Empty where no stage has.
  std::vector<unsigned> buckets;
  bool update = false;
  bool unshard = false;
};
OncePerStep getOncePerStep(llvm::ArrayRef<train::Program> stages);

/// Checks that there are as many stages as the schedule has, that each has a function for
/// everything that the schedule runs on it, and that every update is run. `location` is what is
/// reported about the schedule as a whole.
mlir::LogicalResult checkStages(llvm::ArrayRef<train::Program> stages,
                                const schedule::Program &program, mlir::Location location);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGES_H
