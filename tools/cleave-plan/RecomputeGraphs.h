//===- RecomputeGraphs.h - what layers may save or recompute ----*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H

#include "lib/cost/OpWork.h"
#include "lib/plan/RecomputeCurve.h"
#include "tools/cleave-plan/Layers.h"

#include "llvm/ADT/SmallSet.h"

#include <optional>

namespace cleave::plan {

/// What one layer's own ops make, and what the backward needs of that.
struct LayerRecomputation {
  /// Without times.
  RecomputeGraph graph;
  /// By op; none where it takes no time, or a pass may omit it.
  std::vector<std::optional<cost::OpWork>> works;
};

/// The layers of a microbatch that is not cut.
class RecomputeGraphs {
public:
  /// `works`: what ops take at the least.
  RecomputeGraphs(mlir::func::FuncOp microbatch, const backward::JointGraph &graph,
                  const LayerMap &map, unsigned numLayers,
                  const llvm::DenseMap<mlir::Operation *, cost::OpWork> &works);

  /// As plan::LayerCurves has it.
  int64_t getPassedBytes() const { return passedBytes; }
  LayerRecomputation describe(unsigned layer) const;

private:
  /// Values that follow from each other in no time, so that saving one of them is as good as saving
  /// any other: views, and what copies and casts make. It counts as the smallest.
  struct Class {
    mlir::Operation *op; ///< that makes the first of them
    unsigned layer;
    int64_t bytes;
    /// By a backward's ops of these layers.
    llvm::SmallSet<unsigned, 2> neededBy;
    /// The next layer's backward needs it whatever it recomputes.
    bool isPassed = false;
  };
  std::optional<unsigned> getClass(mlir::Value value) const;
  void classify(mlir::Operation &op);
  void findPassed();

  mlir::func::FuncOp microbatch;
  const backward::JointGraph &graph;
  const LayerMap &map;
  unsigned numLayers;
  const llvm::DenseMap<mlir::Operation *, cost::OpWork> &works;
  std::vector<Class> classes;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  int64_t passedBytes = 0;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H
