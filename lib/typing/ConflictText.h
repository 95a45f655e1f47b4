//===- ConflictText.h - errors of the type checker in words ---------*- C++ -*-===//
//
// Every message names the op, the axis and the types, and says what to insert.
// docs/type-checking.md explains them one by one.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_CONFLICTTEXT_H
#define CLEAVE_LIB_TYPING_CONFLICTTEXT_H

#include "dialects/dist/Dist.h"
#include "lib/typing/AxisInference.h"

namespace cleave::placement {

/// Emits the error for operands that `op` may not join on `axis`, with notes at their origins.
mlir::InFlightDiagnostic emitConflict(mlir::Operation *op, const sharding::ShardingRule &rule,
                                      mlir::StringAttr axis, const Conflict &conflict);

/// Emits the error for a result that declares `declared` where the operands give `inferred`.
mlir::InFlightDiagnostic emitWrongResult(mlir::OpResult result, mlir::StringAttr axis,
                                         dist::AxisPlacement inferred,
                                         dist::AxisPlacement declared);

/// What turns a value on one axis from `from` to `to`, "insert dist.all_reduce sum from P to R";
/// empty if no single op does.
std::string describeTransition(dist::AxisPlacement from, dist::AxisPlacement to);

/// "'mat2'" for an operand that the op's schema names, else "operand 1".
std::string describeOperand(mlir::Operation *op, unsigned operand);

/// Attaches a note at the op that made `value`, or at the function whose argument it is: "`what` is
/// produced here: type".
void noteOrigin(mlir::InFlightDiagnostic &diagnostic, mlir::Value value, const llvm::Twine &what);

/// Whether both are placed on one mesh and mention the same axes.
bool haveSameAxes(dist::PlacementAttr a, dist::PlacementAttr b);

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_CONFLICTTEXT_H
