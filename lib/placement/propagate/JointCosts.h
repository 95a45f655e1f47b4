//===- JointCosts.h - seconds of work and redistributions on a mesh -*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H

#include "lib/cost/CollectiveTime.h"
#include "lib/placement/Redistribution.h"
#include "lib/placement/propagate/MachineModel.h"

namespace cleave::placement::propagate {

/// What one rank does, over all axes of the mesh. On a described cluster ranks are numbered as on
/// the mesh: the last axis has neighbours.
class JointCosts {
public:
  JointCosts(llvm::ArrayRef<MeshAxis> axes, const MachineModel &machine,
             const cost::Cluster *cluster);

  /// Seconds of the redistribution that `--partition` builds; none if there is no way.
  std::optional<double> redistribute(mlir::RankedTensorType type,
                                     llvm::ArrayRef<dist::AxisPlacement> from,
                                     llvm::ArrayRef<dist::AxisPlacement> to);
  /// Seconds of one rank's part of an op, with what a form sends, by its strategies along the axes.
  double work(mlir::Operation *op, llvm::ArrayRef<const AxisStrategy *> strategies) const;
  /// What a rank holds of a value.
  double bytesOnRank(mlir::RankedTensorType type,
                     llvm::ArrayRef<dist::AxisPlacement> placement) const;

private:
  double timeOf(const RedistributionStep &step, double before, double after) const;
  mlir::RankedTensorType simplify(mlir::RankedTensorType type) const;

  llvm::SmallVector<MeshAxis> axes;
  llvm::SmallVector<int64_t> strides;
  int64_t ranks = 1;
  const MachineModel &machine;
  const cost::Cluster *cluster;
  /// Bytes per second of the fastest link.
  double fastest;
  RedistributionPlanner planner;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCOSTS_H
