//===- Partition.h - from a placed global program to a local one ----*- C++ -*-===//
//
// docs/placements.md, "Partitioning". What the parts of the partitioner share: the mesh, the
// planner, and between a program's attributes and its local types.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_PARTITION_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_PARTITION_H

#include "lib/aten/Strides.h"
#include "lib/placement/Redistribution.h"
#include "lib/placement/partition/LocalStrides.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::placement {

struct PartitionSettings {
  /// Gather a parameter again for the backward; else the forward's gathered one is kept for it.
  bool fsdpReshard = true;
  /// Start the gather of a parameter this many gathers before its own place; 0: in its place.
  unsigned prefetch = 0;
  /// Make parts of different sizes where an axis does not divide a dimension, and functions for
  /// each class of ranks that hold the same.
  bool uneven = false;
};

/// What an axis' placement is, by axis of the mesh.
using AxisPlacements = llvm::SmallVector<dist::AxisPlacement, 2>;

/// The mesh of one program, and what is asked of it.
class PartitionContext {
public:
  PartitionContext(dist::MeshOp mesh, llvm::ArrayRef<MeshAxis> axes, PartitionSettings settings)
      : mesh(mesh), axes(axes), planner(axes), settings(settings) {}

  /// The attribute for these entries.
  dist::PlacementAttr attributeOf(llvm::ArrayRef<dist::AxisPlacement> entries) const;
  /// The entries of a local value's type, with R for I.
  AxisPlacements entriesOf(mlir::Value local) const;
  /// The entries of what a placed program says. Fails, with an error at `emit`, where an axis is
  /// open or has a placement that a placed program has not.
  mlir::FailureOr<AxisPlacements>
  entriesOf(dist::PlacementAttr placement,
            llvm::function_ref<mlir::InFlightDiagnostic()> emit) const;
  /// The local type of a global one. Fails, with an error at `emit`, where an axis does not divide
  /// its dimension.
  mlir::FailureOr<mlir::RankedTensorType>
  localType(mlir::RankedTensorType global, llvm::ArrayRef<dist::AxisPlacement> entries,
            llvm::function_ref<mlir::InFlightDiagnostic()> emit) const;
  /// The value as I (`invariant`) or R on this axis, on which it is either.
  mlir::Value convertSameness(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                              mlir::StringAttr axis, bool invariant) const;

  dist::MeshOp mesh;
  llvm::SmallVector<MeshAxis> axes;
  RedistributionPlanner planner;
  PartitionSettings settings;
  /// Maps values of the global function that is being partitioned to those of the local one.
  aten::StrideInference strides;
  LocalStrides localStrides;
  /// For the current function.
  bool holdsGradients = false;
};

/// Whether they agree, whatever the order of axes that shard one dimension.
bool equalUpToOrder(llvm::ArrayRef<dist::AxisPlacement> a, llvm::ArrayRef<dist::AxisPlacement> b);

/// "(R, S(0))" for messages.
std::string describe(llvm::ArrayRef<dist::AxisPlacement> placements);

/// Makes the placed functions of a module local. Emits an error if the module is not completely
/// placed, or an op has no strategy for its placements; the module is then not to be used.
mlir::LogicalResult partition(mlir::ModuleOp module, const PartitionSettings &settings = {});

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_PARTITION_H
