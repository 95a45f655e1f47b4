//===- Strategy.h - the ways to run an op along one mesh axis -------*- C++ -*-===//
//
// What propagation chooses from and partitioning carries out. Most strategies follow from the op's
// sharding rule: nothing is communicated inside the op. Others are *distributed forms* (Form.h):
// what an op becomes where its ranks must talk to each other, such as a cross-entropy over a
// sharded vocabulary.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_STRATEGY_H
#define CLEAVE_LIB_PLACEMENT_STRATEGY_H

#include "dialects/dist/Placement.h"
#include "dialects/sharding/ShardingRule.h"

namespace cleave::placement {

class Form;

struct MeshAxis {
  mlir::StringAttr name;
  /// Ranks along it, at least 2.
  int64_t size;
  /// Whether parts may be of different sizes, as `torch.chunk` makes them.
  bool allowsUneven = false;
  /// Where along the axis the rank stands whose parts are meant, where they are.
  int64_t place = 0;
};

/// Whether a dimension of this size can be sharded along the axis: evenly, or, where that is
/// allowed, so that each rank gets a part.
bool canShard(int64_t size, const MeshAxis &axis);
/// What the rank at the axis' place holds of a dimension of this size, which can be sharded.
int64_t shardSize(int64_t size, const MeshAxis &axis);

/// One way to run an op along one axis. Placements are R, P and S; orders of shards are 0.
struct AxisStrategy {
  /// By operand, and by result; R for what is not a tensor.
  llvm::SmallVector<dist::AxisPlacement, 4> operands;
  llvm::SmallVector<dist::AxisPlacement, 2> results;
  /// The factor of the sharding rule that is cut, if any is.
  std::optional<sharding::FactorId> factor = std::nullopt;
  /// Factors that come before it in a dimension: a rank's part is one shard of the dimension
  /// only where other axes cut each of these into single elements (`isCutInFront`).
  llvm::SmallVector<sharding::FactorId, 1> inFront = {};
  /// The form that runs it; null if each rank runs the op itself on its parts.
  const Form *form = nullptr;
  /// What one rank sends inside the form, in bytes.
  int64_t bytes = 0;
};

/// All strategies of the op along an axis of this size: everything replicated first, then one for
/// each factor that may be cut (unevenly only where it is a dimension by itself), those that pass
/// partial sums through linear ops, then those of forms. The op has global shapes. Two strategies
/// never agree in all placements.
llvm::SmallVector<AxisStrategy> getStrategies(mlir::Operation *op, MeshAxis axis);

/// A factor of an op that an axis cuts, and the ranks along that axis.
using FactorCut = std::pair<sharding::FactorId, int64_t>;
/// Whether `cuts`, those of all axes, leave single elements of what comes before the factor
/// that `strategy` cuts: of batch times time the time, where each rank has one example.
bool isCutInFront(const sharding::ShardingRule &rule, const AxisStrategy &strategy,
                  llvm::ArrayRef<FactorCut> cuts);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_STRATEGY_H
