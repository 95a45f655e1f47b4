//===- RecomputeGraphs.h - what layers may save or recompute ----*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H

#include "lib/cost/OpWork.h"
#include "lib/plan/RecomputeCurve.h"
#include "tools/cleave-plan/Layers.h"

#include "llvm/ADT/SmallSet.h"

#include <optional>

namespace cleave::plan {

/// Along which axis a communication runs.
enum class Axis { None, Tensor, Context, Experts };

/// A kernel, or a communication along an axis.
struct AxisWork {
  cost::OpWork work;
  Axis axis = Axis::None;
};

/// What one layer's own ops make, and what the backward needs of that.
struct LayerRecomputation {
  /// Without times.
  RecomputeGraph graph;
  /// By op; none where it takes no time, or a pass may omit it.
  std::vector<std::optional<AxisWork>> works;
  /// A parameter that the backward needs, as a rank has it that shares it with no others.
  struct Parameter {
    llvm::SmallVector<int64_t> shape;
    int64_t bytes; ///< of the smallest that casts make of it
  };
  std::vector<Parameter> parameters;
};

/// The layers of a microbatch that is not cut.
class RecomputeGraphs {
public:
  /// `works`: what ops take at the least, communications among them. Copies and casts that are not
  /// take no time.
  RecomputeGraphs(mlir::func::FuncOp microbatch, const backward::JointGraph &graph,
                  const LayerMap &map, unsigned numLayers,
                  const llvm::DenseMap<mlir::Operation *, AxisWork> &works);

  /// As plan::LayerCurves has it.
  int64_t getPassedBytes() const { return passedBytes; }
  LayerRecomputation describe(unsigned layer) const;

private:
  /// Values that follow from each other in no time, so that saving one of them is as good as saving
  /// any other: views, and what copies and casts make that take none, or that are of another
  /// layer's value. It counts as the smallest.
  struct Class {
    mlir::Operation *op; ///< that makes the first of them
    unsigned layer;
    int64_t bytes;
    /// By a backward's ops of these layers.
    llvm::SmallSet<unsigned, 2> neededBy;
    /// The next layer's backward needs it whatever it recomputes.
    bool isPassed = false;
  };
  /// A parameter, and what views, copies and casts make of it.
  struct Parameter {
    mlir::Value argument;
    int64_t bytes;
    llvm::SmallSet<unsigned, 2> neededBy;
  };
  std::optional<unsigned> getClass(mlir::Value value) const;
  bool isCopy(mlir::Operation &op) const;
  void need(mlir::Operation &op, unsigned layer);
  void classify(mlir::Operation &op);
  void followParameter(mlir::Operation &op);
  void findPassed();

  mlir::func::FuncOp microbatch;
  const backward::JointGraph &graph;
  const LayerMap &map;
  unsigned numLayers;
  const llvm::DenseMap<mlir::Operation *, AxisWork> &works;
  std::vector<Class> classes;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  std::vector<Parameter> parameters;
  llvm::DenseMap<mlir::Value, unsigned> parameterOf;
  int64_t passedBytes = 0;
};

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_RECOMPUTEGRAPHS_H
