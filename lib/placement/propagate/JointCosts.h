//===- JointCosts.h - seconds of work and redistributions on a mesh -*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H

#include "lib/cost/CollectiveTime.h"
#include "lib/placement/Redistribution.h"
#include "lib/placement/propagate/MachineModel.h"

namespace cleave::placement::propagate {

/// What one rank does, over all axes of the mesh.
class JointCosts {
public:
  JointCosts(llvm::ArrayRef<MeshAxis> axes, const MachineModel &machine);

  /// Seconds of the redistribution that `--partition` builds; none if there is no way.
  std::optional<double> redistribute(mlir::RankedTensorType type,
                                     llvm::ArrayRef<dist::AxisPlacement> from,
                                     llvm::ArrayRef<dist::AxisPlacement> to);
  /// Seconds of the steps of a way from `from`.
  double timeOf(mlir::RankedTensorType type, llvm::ArrayRef<dist::AxisPlacement> from,
                const Redistribution &plan) const;
  /// Seconds of one rank's part of an op, with what a form sends, by its strategies along the axes.
  double work(mlir::Operation *op, llvm::ArrayRef<const AxisStrategy *> strategies) const;
  /// What a rank holds of a value.
  double bytesOnRank(mlir::RankedTensorType type,
                     llvm::ArrayRef<dist::AxisPlacement> placement) const;

private:
  double timeOf(const RedistributionStep &step, double before, double after) const;
  mlir::RankedTensorType simplify(mlir::RankedTensorType type);

  llvm::SmallVector<MeshAxis> axes;
  llvm::SmallVector<cost::Group> groups;
  int64_t ranks = 1;
  cost::Cluster cluster;
  RedistributionPlanner planner;
  llvm::DenseMap<mlir::Type, mlir::RankedTensorType> simplified;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H
