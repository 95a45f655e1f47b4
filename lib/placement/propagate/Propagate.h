//===- Propagate.h - from annotations to a placed program -----------*- C++ -*-===//
//
// Decides by which strategy each op runs and how each argument and result is placed: axis by axis
// in the mesh's order, from what annotations ask for, or on all axes at once, by cost alone
// (JointProblem.h). Writes it as the attributes of Placed.h. docs/placements.md describes both.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_PROPAGATE_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_PROPAGATE_H

#include "lib/placement/propagate/AxisProblem.h"

#include <memory>

namespace cleave::placement::propagate {

/// How one axis was decided, with what it was decided from.
struct AxisRecord {
  Candidates candidates;
  std::unique_ptr<AxisProblem> problem;
};

/// How a program is placed on all axes at once.
struct SolveOptions {
  /// The result depends on these and the program alone, unless time runs out.
  uint64_t seed = 1, moves = 0;
  /// Enough is what costs at most this part of itself more than what is proved of all; without it,
  /// the search makes all moves.
  std::optional<double> gap;
  /// Bytes that a rank may hold at once.
  std::optional<int64_t> memory;
};

/// What a step costs as placed, and what no placement of the program costs less than, in seconds.
struct SolveReport {
  double cost = 0, bound = 0;
  /// Bytes that a rank holds at once, where they are limited.
  std::optional<int64_t> memory;
};

/// A program with everything decided; `explain` tells of it.
struct Propagation {
  std::unique_ptr<Graph> graph;
  MachineModel machine;
  dist::MeshOp mesh;
  /// Axes of at least two ranks, in the mesh's order.
  llvm::SmallVector<MeshAxis> axes;
  /// By axis.
  std::vector<AxisSolution> solutions;
  /// Where one axis was decided after the other.
  std::vector<AxisRecord> records;
  /// Where all were decided at once.
  std::optional<SolveReport> report;
  /// The placements that are written, by value and by use.
  std::vector<dist::PlacementAttr> made, taken;
};

struct PropagateOptions {
  MachineModel machine;
  /// Refuse ops that have no sharding rule, in place of a remark that they run replicated.
  bool strict = false;
  /// Allow for shards of different sizes.
  bool uneven = false;
  /// Place on all axes at once.
  std::optional<SolveOptions> solve;
};

/// Decides all placements of the module's functions; changes nothing. Emits errors where
/// annotations are wrong or cannot be met.
mlir::FailureOr<Propagation> propagate(mlir::ModuleOp module, const PropagateOptions &options);

/// Writes what was decided to the attributes.
void write(const Propagation &propagation);

/// The mesh of the module; with a description such as "dp=2,tp=2", a new one where it has none.
/// Emits an error if there is none, or several, or another one than described.
mlir::FailureOr<dist::MeshOp> getOrAddMesh(mlir::ModuleOp module, llvm::StringRef description);

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_PROPAGATE_H
