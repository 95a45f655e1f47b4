//===- Compatible.h - what fits with the axes before ----------------*- C++ -*-===//
//
// A strategy on one axis fits with those on the axes before it where all shards stay even, pending
// reductions are of one kind, and forms do not meet.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H

#include "lib/placement/propagate/Candidates.h"

namespace cleave::placement::propagate {

/// How an op runs, or a value lies, along an axis before.
struct StrategyBeside {
  MeshAxis axis;
  const AxisStrategy *strategy;
};
struct PlacementBeside {
  MeshAxis axis;
  dist::AxisPlacement placement;
};

/// Whether the op may run so along `axis` beside what it does along others.
bool fitsBeside(const Graph &graph, const OpNode &op, MeshAxis axis, const AxisStrategy &strategy,
                llvm::ArrayRef<StrategyBeside> others);
/// Whether a value of this type may lie so along `axis` beside how it lies along others.
bool fitsBeside(mlir::RankedTensorType type, MeshAxis axis, dist::AxisPlacement placement,
                llvm::ArrayRef<PlacementBeside> others);

/// The same where axes are decided one after the other.
class Compatibility {
public:
  Compatibility(const Graph &graph, MeshAxis axis, llvm::ArrayRef<AxisSolution> earlier)
      : graph(graph), axis(axis), earlier(earlier) {}

  bool fits(unsigned op, const AxisStrategy &strategy) const;
  /// Whether a value may be made so.
  bool fits(const ValueNode &value, dist::AxisPlacement placement) const;

private:
  const Graph &graph;
  MeshAxis axis;
  llvm::ArrayRef<AxisSolution> earlier;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_COMPATIBLE_H
