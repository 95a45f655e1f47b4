//===- Updates.h - what updates make of other gradients ------------*- C++ -*-===//
//
// Where an optimizer's step depends on the sign of a gradient, or compares what it makes of it,
// rounding may turn the step: such a value tells two programs apart only where a small change of
// the gradients leaves it as it is.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_UPDATES_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_UPDATES_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::prove {

/// Whether a program has a function of phase update.
bool hasUpdates(mlir::ModuleOp module);

/// Removes the updates of a program.
void eraseUpdates(mlir::ModuleOp module);

/// How gradients change: all become larger, smaller, or larger where the parameter is positive.
enum class Change : uint8_t { Larger, Smaller, BySign };

/// Lets each update of a program without a mesh begin with gradients of which each element is
/// changed by `share` of the greatest norm of any: so are those that are zero but for rounding.
void changeGradients(mlir::ModuleOp module, Change change, double share);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_UPDATES_H
