//===- SolveJointly.h - decides all axes at once --------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVEJOINTLY_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVEJOINTLY_H

#include "lib/placement/propagate/Propagate.h"

namespace cleave::placement::propagate {

/// Fills in what is decided of a propagation that has its graph, mesh, axes and machine. Emits an
/// error where annotations leave no choice.
mlir::LogicalResult solveJointly(Propagation &propagation, const SolveOptions &options);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_SOLVEJOINTLY_H
