//===- StageFunctions.h - builds the functions of pipeline stages ---*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H
#define CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H

#include "lib/backward/Partition.h"
#include "lib/pipeline/StageAssignment.h"

namespace cleave::pipeline {

/// What crosses from one stage to the next, and back.
struct BoundaryTraffic {
  unsigned values = 0, gradients = 0;
  int64_t valueBytes = 0, gradientBytes = 0;
  /// How many values and gradients are pending sums over a mesh axis.
  unsigned pending = 0;
};

/// The functions of one program, by stage.
struct OutlinedStages {
  std::vector<train::ProgramFunctions> stages;
  /// Between each stage and the next.
  llvm::SmallVector<BoundaryTraffic> traffic;
};

/// Builds a forward and a backward of each stage, the backward as `policy` and `level` ask
/// (Partition.h), and its part of the update, before the functions of `program`, which stay.
/// Without gradients among the microbatch's results there are only forwards. Fails, with an error,
/// where a buffer is read before the stage that updates it, a tag cannot be met, or the update
/// mixes parameters of several stages.
llvm::FailureOr<OutlinedStages> buildStages(const train::ProgramFunctions &program,
                                            const backward::JointGraph &graph,
                                            const StageAssignment &assignment,
                                            backward::PartitionPolicy policy,
                                            backward::RecomputeLevel level);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H
