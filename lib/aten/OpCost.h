//===- OpCost.h - how long an op takes, from its shapes -------------*- C++ -*-===//

#ifndef CLEAVE_LIB_ATEN_OPCOST_H
#define CLEAVE_LIB_ATEN_OPCOST_H

#include "lib/cost/OpWork.h"

#include "mlir/IR/Operation.h"

namespace cleave::aten {

/// Floating-point operations, a multiplication and an addition counted as two; 0 for ops that do
/// not say how many (`CostOpInterface`).
int64_t countFlops(mlir::Operation *op);

/// Bytes of memory that an op reads and writes: of its tensor operands and results; of a table that
/// it looks up rows in, those rows only. Views have none.
int64_t countBytes(mlir::Operation *op);

/// What a device does for an op that does not communicate: a product of matrices (convolutions and
/// grouped products as such too), fused attention, or a kernel that moves bytes. No kernels:
/// nothing runs, as for views. Products of 64 bits count as two of 32.
cost::OpWork describeWork(mlir::Operation *op);

/// What an op costs where no cluster is described, in bytes moved: the time of `describeWork` on
/// `cost::makeNominalDevice`. Views cost nothing.
double estimateCost(mlir::Operation *op);

/// Seconds of an op that does not communicate on the cluster's device, each kernel's own time
/// included.
double estimateSeconds(mlir::Operation *op, const cost::Cluster &cluster);

/// Emits an error at the first op in `root` for which the cluster's device has no rate: a product
/// of 32 bits, where its file lacks "flops_32bit".
llvm::LogicalResult checkRates(mlir::Operation *root, const cost::Cluster &cluster);

} // namespace cleave::aten

#endif // CLEAVE_LIB_ATEN_OPCOST_H
