//===- Checks.h - what annotations may say --------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_CHECKS_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_CHECKS_H

#include "lib/placement/propagate/Graph.h"

namespace cleave::placement::propagate {

/// Annotations name axes of the mesh and dimensions that the axes divide: evenly, or, with
/// `uneven`, into parts of which none is empty. Emits an error for each that does not.
mlir::LogicalResult checkAnnotations(const Graph &graph, dist::MeshOp mesh, bool uneven);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_CHECKS_H
