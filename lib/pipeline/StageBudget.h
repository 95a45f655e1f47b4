//===- StageBudget.h - stages within the memory of their ranks -----*- C++ -*-===//
//
// How many microbatches a rank has in flight depends on the schedule and on its place: the first
// rank of 1F1B holds as many as there are ranks, the last one a single one. So each rank has its
// own answer to what its stages save and what they recompute.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEBUDGET_H
#define CLEAVE_LIB_PIPELINE_STAGEBUDGET_H

#include "lib/backward/Budget.h"
#include "lib/pipeline/RankMemory.h"

namespace cleave::pipeline {

struct StageBudget {
  /// Of each rank, for a whole step.
  int64_t bytes = 0;
  /// With sends and receives.
  schedule::Schedule schedule;
  /// Whether it runs backwards in halves, so that --split-backward follows. Not of stages that are
  /// lowered.
  bool splitsBackward = false;
  /// Whether the stages are to be lowered by --lower-to-exec.
  bool isLowered = false;
  /// What may be recomputed.
  backward::RecomputeLevel level = backward::RecomputeLevel::All;
  /// Whether saved values may wait in host memory.
  bool mayOffload = false;
  /// Whose times count; those of a nominal device without one.
  std::optional<cost::Cluster> cluster;
};

/// A stage before it is divided into functions.
struct JointStage {
  backward::JointGraph graph;
  /// Null if it has none.
  mlir::func::FuncOp update, unshard;
};

/// What a budget came to on one rank.
struct RankBudget {
  /// Of it, what is there all the time.
  int64_t peakBytes = 0, stateBytes = 0;
  /// Of what one microbatch recomputes and copies on this rank: see RecomputeTimes.
  int64_t time = 0;
  /// What one microbatch offloads.
  int64_t hostBytes = 0;
};

struct StagePartitions {
  std::vector<backward::Partition> stages;
  std::vector<RankBudget> ranks;
};

/// Chooses what each stage saves: on each rank the least recomputation that was found within the
/// budget. A smaller budget never gives a rank a higher peak. Fails where a rank cannot do with it,
/// with an error at `location` that says what it needs at least, and for what.
mlir::FailureOr<StagePartitions> chooseStagePartitions(llvm::ArrayRef<JointStage> stages,
                                                       const StageBudget &budget,
                                                       mlir::Location location);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEBUDGET_H
