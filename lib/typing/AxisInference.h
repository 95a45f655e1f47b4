//===- AxisInference.h - which placements an op may join, on one axis -*- C++ -*-===//
//
// The algebra of docs/types.md: given an op's sharding rule and how its operands vary along one
// mesh axis, how do its results vary, if nothing is communicated? Knows neither ops nor values nor
// the other axes; `Inference.h` asks it axis by axis.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_AXISINFERENCE_H
#define CLEAVE_LIB_TYPING_AXISINFERENCE_H

#include "dialects/dist/Placement.h"
#include "dialects/sharding/ShardingRule.h"

#include <variant>

namespace cleave::placement {

/// How one operand varies along the axis.
struct AxisOperand {
  /// None for what is not a tensor.
  std::optional<dist::AxisPlacement> placement;
  /// Whether a gradient will flow to it (rule 3). Asked of `I` and `R` only.
  bool carriesGradient = false;
};

/// Why an op may not join its operands on this axis.
struct Conflict {
  enum class Reason {
    InvariantMixed,   ///< `operand` is I and carries a gradient; `other` is not the same on all
                      ///< ranks, or is R and carries one
    PartialPlusWhole, ///< P `operand` is added to `other`, which is not P
    PartialProduct,   ///< `operand` and `other` are P, and are multiplied
    PartialNonlinear, ///< the op is not linear in P `operand`
    PartialMoved,     ///< P(max) or its like, and the op does more than move elements
    PartialMixed,     ///< `operand` and `other` are P of different reductions
    PartialVarying,   ///< `operand` is P and `other` is V or S
    ShardWhole,       ///< `operand` is S(dim), and the op needs the dimension whole
    ShardUnlike,      ///< `operand` is S(dim); `other` has the factor too and is not sharded by it
    ShardCrossed,     ///< `operand` and `other` are sharded in dimensions that do not correspond
    ShardInner,       ///< `operand` is S(dim); in result `result` the factor is an inner part
    PartialAddend,    ///< `operand` is S(dim), which is summed; `other` is added to it and is not P
    OrderUnlike,      ///< several axes shard a dimension, in different orders in `operand`, `other`
  };
  Reason reason;
  unsigned operand;
  /// Another operand; equal to `operand` if there is none.
  unsigned other;
  /// The factor that is sharded, for the reasons that speak of dimensions.
  std::optional<sharding::FactorId> factor = std::nullopt;
  unsigned result = 0;
};

/// One way in which the op is right on this axis.
struct AxisChoice {
  /// How each result varies; orders of shards are 0. What is not a tensor has R.
  llvm::SmallVector<dist::AxisPlacement, 1> results;
  /// The factor that is sharded, if any is.
  std::optional<sharding::FactorId> factor;
};

/// All ways, the one to take first; or why there is none. More than one way has an op whose results
/// depend on no operand (I or R), one that joins I and R where no gradient flows (R or I), and a
/// view that splits a sharded dimension into one of size 1 and a rest.
using AxisResult = std::variant<llvm::SmallVector<AxisChoice, 1>, Conflict>;

/// `operands` are those of the rule, in its order.
AxisResult inferAxis(const sharding::ShardingRule &rule, llvm::ArrayRef<AxisOperand> operands);

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_AXISINFERENCE_H
