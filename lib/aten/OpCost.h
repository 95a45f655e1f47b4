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

/// What an op costs, in bytes moved: those of its tensor operands and results, and one for every
/// 32 floating-point operations (between a core's and an accelerator's balance: only the ratio of
/// contractions to all else depends on it). Views cost nothing.
double estimateCost(mlir::Operation *op);

} // namespace cleave::aten

#endif // CLEAVE_LIB_ATEN_OPCOST_H
