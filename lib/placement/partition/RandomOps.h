//===- RandomOps.h - a rank's part of what is drawn -----------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_RANDOMOPS_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_RANDOMOPS_H

#include "lib/placement/partition/Partition.h"

namespace cleave::placement {

/// The local results of a random op of PyTorch's generator, placed as `results` say, so that all
/// ranks together have the numbers of the global op: each rank draws the whole tensor and takes its
/// part. Failure after an error at `op`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
drawParts(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
          llvm::ArrayRef<AxisPlacements> results, PartitionContext &context);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_RANDOMOPS_H
