//===- LocalOps.h - what one rank runs of an op ---------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_LOCALOPS_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_LOCALOPS_H

#include "lib/placement/partition/Partition.h"

namespace cleave::placement {

/// The strategy of `op` along the axis that takes and gives these placements, whose orders are not
/// looked at; by operand and result. Emits an error at `op` that lists the strategies where there
/// is none.
mlir::FailureOr<AxisStrategy> findStrategy(mlir::Operation *op, MeshAxis axis,
                                           llvm::ArrayRef<dist::AxisPlacement> operands,
                                           llvm::ArrayRef<dist::AxisPlacement> results);

/// Builds what one rank runs of `op`, which has global shapes: on `operands`, its local ones, by
/// these strategies, one an axis. Returns a local value a result; failure after an error at `op`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildLocalOp(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
             llvm::ArrayRef<AxisStrategy> strategies, PartitionContext &context);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_LOCALOPS_H
