//===- StageAssignment.h - which pipeline stage runs an op ----------*- C++ -*-===//
//
// The forward is cut as asked; where the backward runs follows from it by data flow, so no op needs
// a mark of its own that passes would have to keep.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEASSIGNMENT_H
#define CLEAVE_LIB_PIPELINE_STAGEASSIGNMENT_H

#include "lib/backward/JointGraph.h"
#include "lib/cost/Cluster.h"

#include "llvm/ADT/SmallBitVector.h"

namespace cleave::pipeline {

/// How the forward is cut into stages.
struct StageRequest {
  enum class Kind {
    Marks,   ///< `train.stage` on ops
    Modules, ///< a stage begins with the first op of each of `modules`
    Cost     ///< `count` stages of even cost
  } kind = Kind::Marks;
  int64_t count = 0;
  llvm::SmallVector<std::string> modules;
  /// For Cost: by how much the most expensive stage may exceed the optimum so that less
  /// crosses.
  double slack = 0.05;
  /// For Cost: the description of the cluster that the stages run on; costs are those of a nominal
  /// device without one.
  std::string cluster;
};

/// The stage of each op and result of a joint function. Values go forward through stages in
/// ascending order, gradients back in descending order.
///
/// Forward ops that compute from no activation (from parameters alone, or from inputs, buffers and
/// constants alone: masks, rotary tables, casts and transposes of weights) have no stage: each
/// stage that needs them runs them.
class StageAssignment {
public:
  /// Fails, with an error at the op or function, where the request cannot be met.
  static llvm::FailureOr<StageAssignment> create(const backward::JointGraph &graph,
                                                 const StageRequest &request);

  unsigned getNumStages() const { return numStages; }
  /// None for an op that every stage that needs it runs.
  std::optional<unsigned> getStage(mlir::Operation *op) const;
  /// The same for ops of the forward alone; none for others.
  std::optional<unsigned> getForwardStage(mlir::Operation *op) const;
  /// Where a result of the function comes from.
  unsigned getResultStage(unsigned index) const { return resultStages[index]; }
  /// The first stage whose forward takes the argument; 0 for one that no forward takes.
  unsigned getFirstConsumer(mlir::BlockArgument argument) const;
  /// Cost of the forward ops of each stage (OpCost.h): in seconds on the cluster that the request
  /// names, or else in bytes.
  llvm::ArrayRef<double> getCosts() const { return costs; }

private:
  explicit StageAssignment(const backward::JointGraph &graph) : graph(graph) {}

  void findParameters();
  void findShared();
  bool isPlaced(mlir::Operation *op) const {
    return graph.isForward(op) && !graph.isTangent(op) && !shared.contains(op);
  }
  llvm::LogicalResult placeByMarks();
  llvm::LogicalResult placeByModules(llvm::ArrayRef<std::string> modules);
  llvm::LogicalResult placeByCost(const StageRequest &request);
  double costOf(mlir::Operation *op) const;
  void placeInOrder(llvm::ArrayRef<mlir::Operation *> beginnings);
  void findPresence();
  void placeBackward();
  void sinkBackward();
  void placeResults();

  llvm::SmallBitVector whereAllPresent(mlir::Operation *op, bool onlyPlaced) const;
  unsigned earliestStage(mlir::Operation *op) const;
  llvm::DenseMap<mlir::Operation *, mlir::BlockArgument> findContributions() const;
  std::optional<llvm::SmallVector<mlir::Value>> listSentBack(mlir::Value value,
                                                             unsigned target) const;
  std::optional<int64_t> countBytesTaken(mlir::Operation *op, unsigned target,
                                         bool mayTakeBack) const;
  unsigned latestOfTangents(mlir::Operation *op) const;

  const backward::JointGraph &graph;
  unsigned numStages = 1;
  llvm::DenseMap<mlir::StringAttr, mlir::BlockArgument> parameters; ///< by name
  llvm::DenseSet<mlir::Operation *> shared;
  /// Values of inputs, buffers and constants alone: cheap to have in any stage.
  llvm::DenseSet<mlir::Value> anywhere;
  llvm::DenseMap<mlir::Operation *, unsigned> stages;
  /// Stages whose forward has a value; empty: it has no opinion.
  llvm::DenseMap<mlir::Value, llvm::SmallBitVector> presence;
  /// Values of the forward that are made in some stage, and those computed from such.
  llvm::DenseMap<mlir::Value, unsigned> earliest;
  /// The fewest bytes from which an op's part of a parameter's gradient can be computed in the
  /// stage where that gathers; none where it cannot.
  llvm::DenseMap<mlir::Operation *, int64_t> fewestBytes;
  /// Values of the forward that an earlier stage has for its backward, by that stage.
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> sentBack;
  llvm::SmallVector<unsigned> resultStages;
  std::optional<cost::Cluster> cluster;
  llvm::SmallVector<double> costs;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEASSIGNMENT_H
