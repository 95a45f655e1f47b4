//===- Compatible.h - what fits with the axes before ----------------*- C++ -*-===//
//
// Axes are decided one after the other. A strategy on one fits with those on the axes before where
// all shards stay even, pending reductions are of one kind, and forms do not meet.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H

#include "lib/placement/propagate/Candidates.h"

namespace cleave::placement::propagate {

class Compatibility {
public:
  Compatibility(const Graph &graph, MeshAxis axis, llvm::ArrayRef<AxisSolution> earlier)
      : graph(graph), axis(axis), earlier(earlier) {}

  bool fits(unsigned op, const AxisStrategy &strategy) const;
  /// Whether a value may be made so.
  bool fits(const ValueNode &value, dist::AxisPlacement placement) const;

private:
  bool fits(mlir::RankedTensorType type, dist::AxisPlacement placement,
            llvm::function_ref<dist::AxisPlacement(const AxisSolution &)> before) const;

  const Graph &graph;
  MeshAxis axis;
  llvm::ArrayRef<AxisSolution> earlier;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H
