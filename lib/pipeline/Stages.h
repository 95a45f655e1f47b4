//===- Stages.h - a program's stages against a schedule --------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGES_H
#define CLEAVE_LIB_PIPELINE_STAGES_H

#include "dialects/train/Program.h"
#include "lib/schedule/model/Schedule.h"

namespace cleave::pipeline {

/// The functions of each stage, from the first stage to the last; none if the module has no
/// program in stages. Emits an error if the program is not sound (train::getProgram): a stage is
/// missing, a stage's output is not its successor's input, ...
mlir::FailureOr<std::vector<train::ProgramFunctions>> getStages(mlir::ModuleOp module);

/// What the stages have that runs once per step.
struct OncePerStep {
  /// What each stage reduces: its buckets (train::listReducedBuckets), and after them its reduce
  /// function, if it has one. Empty if no stage has any.
  std::vector<unsigned> buckets;
  /// Whether a stage's reduce function waits for its buckets: it had better run late.
  std::vector<bool> waits;
  bool update = false;
  bool unshard = false;
};
OncePerStep getOncePerStep(llvm::ArrayRef<train::ProgramFunctions> stages);

/// A collective action of this name, and a sum's after it, which all ranks of the pipeline enter,
/// adds the stages' terms of that sum (train::StageSum).
inline constexpr llvm::StringLiteral kStageSumPrefix = "stage_sum.";

/// Adds those of these actions that no rank enters, before the ranks' first optimizer steps.
void addStageSums(llvm::ArrayRef<train::ProgramFunctions> stages, schedule::Schedule &program);

/// Checks that there are as many stages as the schedule has, that each has a function for
/// everything that the schedule runs on it, that every update is run, and that sums over stages
/// come between their terms and the updates. `location` is what is
/// reported about the schedule as a whole.
mlir::LogicalResult checkStages(llvm::ArrayRef<train::ProgramFunctions> stages,
                                const schedule::Schedule &program, mlir::Location location);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGES_H
