//===- StageFrontier.h - how stages trade memory for time ----------*- C++ -*-===//
//
// The partitions of a stage among which a budget chooses. Stages with the same ops have the same
// ones, and are searched and measured once.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEFRONTIER_H
#define CLEAVE_LIB_PIPELINE_STAGEFRONTIER_H

#include "lib/pipeline/StageBudget.h"

#include <map>

namespace cleave::pipeline {

/// The partitions of a stage that trade memory for time.
struct StageFrontier {
  struct Point {
    /// See backward::PartitionCosts.
    llvm::BitVector kept;
    StageMemory memory;
    /// Where the stage is lowered: see backward::FunctionPeaks.
    int64_t arenaBytes = 0, frameBytes = 0;
    int64_t time = 0, hostBytes = 0;
  };
  /// From the least memory to the least time.
  std::vector<Point> points;
  size_t chosen = 0;
  unsigned inFlight = 0;
};

class StageSearch {
public:
  StageSearch(llvm::ArrayRef<JointStage> stages, const StageBudget &budget);

  /// What stages take of each other, which does not depend on how they are divided.
  const std::vector<StageMemory> &getTaken() const { return taken; }
  /// Finds the frontier of a stage of which a rank has so many microbatches in flight. Fails, with
  /// an error, where a tag cannot be met or the backward cannot be split.
  mlir::LogicalResult run(unsigned stage, unsigned inFlight, StageFrontier &frontier);
  mlir::FailureOr<backward::Partition> getPartition(unsigned stage, const llvm::BitVector &kept);

private:
  mlir::FailureOr<StageFrontier> search(unsigned stage, unsigned inFlight);
  mlir::FailureOr<StageMemory> measureHalves(unsigned stage, const llvm::BitVector &kept,
                                             const backward::Partition &partition);
  backward::StepForm getForm(unsigned inFlight) const;

  llvm::ArrayRef<JointStage> stages;
  const StageBudget &budget;
  std::optional<backward::RecomputeTimes> times;
  std::vector<StageMemory> taken;
  /// By stage: the first with the same ops.
  std::vector<unsigned> sameAs;
  /// Of these, by microbatches in flight.
  std::map<std::pair<unsigned, unsigned>, StageFrontier> known;
  /// Of these, by what is kept: with the backward in halves.
  std::vector<llvm::DenseMap<llvm::BitVector, StageMemory>> halves;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEFRONTIER_H
