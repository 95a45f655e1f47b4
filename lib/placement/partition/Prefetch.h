//===- Prefetch.h - parameters gathered ahead of their use ----------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_PREFETCH_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_PREFETCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::placement {

/// Splits each gather of a parameter of a local function into a start and a wait. The wait stays in
/// the gather's place, the start goes to the wait of the gather `distance` before it, or to the
/// front of the function. 0 leaves gathers as they are.
void prefetchParameters(mlir::func::FuncOp function, unsigned distance);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_PREFETCH_H
