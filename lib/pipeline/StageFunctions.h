//===- StageFunctions.h - builds the functions of pipeline stages ---*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H
#define CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H

#include "lib/pipeline/StageAssignment.h"
#include "lib/pipeline/StageBudget.h"

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
  /// By rank, where there is a budget.
  std::vector<RankBudget> ranks;
};

/// What forwards save for their backwards.
struct SavePolicy {
  backward::PartitionPolicy policy = backward::PartitionPolicy::MinCut;
  /// What min-cut may recompute.
  backward::RecomputeLevel level = backward::RecomputeLevel::Cheap;
  /// For PartitionPolicy::Budget.
  std::optional<StageBudget> budget;
  /// Whether FSDP's collectives run once per step, in functions of their own.
  bool splitsFsdp = false;
};

/// Builds a forward and a backward of each stage, divided as `policy` asks, and its part of the
/// update, before the functions of `program`, which stay.
/// Without gradients among the microbatch's results there are only forwards. Fails, with an error,
/// where a buffer is read before the stage that updates it, a tag cannot be met, the update mixes
/// parameters of several stages, or a rank cannot do with its budget.
llvm::FailureOr<OutlinedStages> buildStages(const train::ProgramFunctions &program,
                                            const backward::JointGraph &graph,
                                            const StageAssignment &assignment,
                                            const SavePolicy &policy);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEFUNCTIONS_H
