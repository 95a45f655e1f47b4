//===- Jumps.h - updates that rounding changes by more than rounding -*- C++ -*-===//
//
// An optimizer whose steps depend on the sign of a gradient makes them of any sign where that is
// zero but for rounding: such an update tells no two programs apart.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_JUMPS_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_JUMPS_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::prove {

/// Whether an update of the program computes, from gradients, what is no continuous function of
/// them: signs, comparisons, orders, integers.
bool jumpsInUpdate(mlir::ModuleOp module);

/// Removes the updates of a program.
void eraseUpdates(mlir::ModuleOp module);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_JUMPS_H
