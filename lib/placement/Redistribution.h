//===- Redistribution.h - from one placement to another, cheaply ----*- C++ -*-===//
//
// Which communication takes a value from how it lies on the mesh to how it is wanted. Propagation
// asks what a redistribution costs, partitioning builds it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_REDISTRIBUTION_H
#define CLEAVE_LIB_PLACEMENT_REDISTRIBUTION_H

#include "lib/placement/Strategy.h"

#include "dialects/dist/Dist.h"

#include "mlir/IR/Builders.h"

#include <memory>

namespace cleave::placement {

/// One `dist` op of a redistribution, over axes that all make the same transition.
struct RedistributionStep {
  enum class Kind : uint8_t {
    AllReduce,     ///< P(k) to R
    ReduceScatter, ///< P(k) to S(scattered)
    AllGather,     ///< S(gathered) to R
    AllToAll,      ///< S(gathered) to S(scattered)
    Convert,       ///< R to S(scattered), R to P, S(gathered) to P: nothing is sent
    Reinterpret,   ///< R to P(avg), P(max) or P(min), via V: nothing is sent
  };
  Kind kind;
  /// Major first; conversions have one.
  llvm::SmallVector<mlir::StringAttr, 2> axes;
  /// Of the reducing kinds and `Reinterpret`.
  dist::Reduction reduction = dist::Reduction::Sum;
  /// The dimension that grows, and the one that shrinks.
  int64_t gathered = 0, scattered = 0;
  /// How the value lies afterwards, by axis of the planner.
  llvm::SmallVector<dist::AxisPlacement, 2> result;

  bool communicates() const { return kind < Kind::Convert; }
};

struct Redistribution {
  llvm::SmallVector<RedistributionStep, 2> steps;
  /// What one rank sends, in bytes: a ring's (n-1)/n of the data for a scatter or exchange over n
  /// ranks, n-1 parts for a gather, twice a scatter for an all_reduce.
  int64_t bytes = 0;
  /// Steps that communicate.
  unsigned collectives = 0;
};

/// Plans redistributions on one mesh and remembers them. Placements are R, P and S.
class RedistributionPlanner {
public:
  /// `axes`: those of the placements, of which each has at least two ranks.
  explicit RedistributionPlanner(llvm::ArrayRef<MeshAxis> axes);
  ~RedistributionPlanner();

  llvm::ArrayRef<MeshAxis> getAxes() const { return axes; }

  /// The way that sends the fewest bytes, then has the fewest collectives, then the fewest steps;
  /// parts stay even on it, where the axis does not allow for others, and an axis on which the
  /// value is and stays replicated takes no part. `type` has the global shape; `from` and `to` an
  /// entry per axis, with orders. Null if there is no way: to a pending product, to parts of
  /// unequal size. Found by search over all placements that lie between, once for each question.
  const Redistribution *plan(mlir::RankedTensorType type, llvm::ArrayRef<dist::AxisPlacement> from,
                             llvm::ArrayRef<dist::AxisPlacement> to);
  /// The same for attributes that have all axes.
  const Redistribution *plan(mlir::RankedTensorType type, dist::PlacementAttr from,
                             dist::PlacementAttr to);

  /// The entries of an attribute by axis; R where it does not mention one.
  llvm::SmallVector<dist::AxisPlacement, 2> entriesOf(dist::PlacementAttr placement) const;

private:
  struct Memory;
  llvm::SmallVector<MeshAxis> axes;
  std::unique_ptr<Memory> memory;
};

/// What one rank sends for this redistribution, in bytes; none if there is no way. Asks a
/// planner: who asks often keeps one.
std::optional<int64_t> redistributionCost(mlir::RankedTensorType type,
                                          llvm::ArrayRef<dist::AxisPlacement> from,
                                          llvm::ArrayRef<dist::AxisPlacement> to,
                                          llvm::ArrayRef<MeshAxis> axes);

/// The shape that one rank holds of a value of this global shape. None if a dimension cannot
/// be sharded so, and then `refused` is the number of the first axis that cannot; several axes that
/// shard one dimension divide it evenly.
std::optional<llvm::SmallVector<int64_t>> localShape(llvm::ArrayRef<int64_t> shape,
                                                     llvm::ArrayRef<dist::AxisPlacement> placement,
                                                     llvm::ArrayRef<MeshAxis> axes,
                                                     unsigned *refused = nullptr);

/// Builds the ops of `plan` on a local value, whose type has a placement, of a tensor of shape
/// `wholeShape`. Returns what the last one gives.
mlir::Value buildRedistribution(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                                llvm::ArrayRef<int64_t> wholeShape, const Redistribution &plan,
                                llvm::ArrayRef<MeshAxis> axes);

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_REDISTRIBUTION_H
