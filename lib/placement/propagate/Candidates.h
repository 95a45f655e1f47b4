//===- Candidates.h - which choices propagation has along one axis --*- C++ -*-===//
//
// Nothing is sharded that no annotation asks for. Shardings spread from annotations along the
// factors of ops' sharding rules, to and fro, level by level: what a level has reached is not
// reached again by the next. So the user's intent settles what cost alone could not:
//
//   - An axis on which an input or target is sharded is a *data axis*. Inputs, targets and
//     activations come first there: a parameter's shards are how it is stored, and it is gathered
//     for ops that work on parts of the batch (FSDP).
//   - On any other axis parameters and constraints on operands come first (tensor parallelism), and
//     activations next (sequence parallelism).
//
// An op's candidates are then: replicated; the cuts that its level has reached; partial sums, where
// one may come in; what of this fits its own annotations. Where cost alone is to decide, every cut
// counts as reached (`Reach::Everything`).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_CANDIDATES_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_CANDIDATES_H

#include "lib/placement/propagate/Graph.h"

#include <map>

namespace cleave::placement::propagate {

/// What has been decided along one axis.
struct AxisSolution {
  MeshAxis axis;
  /// By op; by value; by use. Orders of shards are 0.
  std::vector<AxisStrategy> strategies;
  std::vector<dist::AxisPlacement> made, taken;
};

/// How a group's ports are placed; optimizer states as `self`, where nothing else is said.
struct GroupChoice {
  dist::AxisPlacement self, gradient;
};

/// Why dimension `dim` of a value may be sharded: from which dimension of which value it was
/// reached, through which op or group. All kNone where an annotation says so itself.
struct Origin {
  unsigned value = kNone, dim = 0;
  unsigned op = kNone, group = kNone;
  /// The use that is annotated, if one is.
  unsigned annotatedUse = kNone;
};

/// What may be sharded: what annotations lead to, or all that rules allow beside annotations.
enum class Reach : uint8_t { Annotated, Everything };

class Candidates {
public:
  /// Emits an error if annotations contradict each other or no strategy fits them.
  static mlir::FailureOr<Candidates> collect(const Graph &graph, MeshAxis axis,
                                             llvm::ArrayRef<AxisSolution> earlier,
                                             Reach reach = Reach::Annotated);

  /// By op and by group; never empty.
  std::vector<llvm::SmallVector<AxisStrategy, 4>> ops;
  std::vector<llvm::SmallVector<GroupChoice, 2>> groups;
  /// Whether the group's own annotation decides.
  std::vector<char> isGroupFixed;
  /// By value and dimension.
  std::map<std::pair<unsigned, unsigned>, Origin> reached;
  bool isDataAxis = false;

  dist::AxisPlacement getPort(unsigned port, const GroupChoice &choice) const;

private:
  class Builder;
  /// Annotated optimizer states, by port.
  std::vector<std::optional<dist::AxisPlacement>> states;
  const Graph *graph = nullptr;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_CANDIDATES_H
