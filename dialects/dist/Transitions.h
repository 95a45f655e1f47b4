//===- Transitions.h - which op takes which type to which ----------*- C++ -*-===//
//
// The table of docs/types.md as data: verifiers, derivatives' tests and the generated page read it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_DIST_TRANSITIONS_H
#define CLEAVE_DIALECTS_DIST_TRANSITIONS_H

#include "dialects/dist/Placement.h"

#include <optional>

namespace cleave::dist {

/// Which reductions a row takes.
enum class ReductionRule {
  None,       ///< the op reduces nothing
  Own,        ///< the op has a reduction, which is that of the pending value: P(k)
  Any,        ///< the op has a reduction, any
  Sum,        ///< the op has none; the pending value of the row is a sum
  AnyPending, ///< the op has none; the pending value of the row has any
};

/// What a row does to the dimension that the op names, or that the type shards.
enum class ShapeEffect {
  Same,     ///< the shape stays
  Gather,   ///< the source's is what one rank holds of the destination's
  Scatter,  ///< the destination's is what one rank holds of the source's
  Exchange, ///< one dimension is gathered, another one scattered
};

/// One row: along each of its axes, `dist.OP` takes this kind of placement to that one. An op
/// without operand has no source, one without result no destination.
struct Transition {
  llvm::StringLiteral op;
  std::optional<PlacementKind> source;
  std::optional<PlacementKind> destination;
  ReductionRule reduction;
  ShapeEffect shape;
};

/// All rows, ops in the order of docs/types.md.
llvm::ArrayRef<Transition> transitions();

/// The row of `dist.OP` from one kind to another, or null.
const Transition *findTransition(llvm::StringRef op, std::optional<PlacementKind> source,
                                 std::optional<PlacementKind> destination);

/// Whether a row holds for these placements and the op's reduction (none if it has none). Kinds
/// must be the row's.
bool takesReduction(const Transition &row, const AxisPlacement &source,
                    const AxisPlacement &destination, std::optional<Reduction> reduction);

/// What the op takes, for messages: "S(d) to R or I; V to R, I or V".
std::string describeTransitions(llvm::StringRef op);

/// Which ops take one placement to the other in place of `dist.OP`, which would do `shape`, for
/// messages: "dist.all_reduce", or two in a row: "dist.reinterpret to V, then dist.all_reduce".
/// Where none does this to the shape, what the op does is said too. Empty if there are none.
std::string suggestOps(llvm::StringRef op, const AxisPlacement &source,
                       const AxisPlacement &destination, ShapeEffect shape);

/// The table as a JSON list of {op, reduction, source, destination, shape}, one element for each
/// legal choice: reductions enumerated, placements as in the types' text with S for S(d), null
/// if there is none.
void printTransitionsAsJson(llvm::raw_ostream &os);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_TRANSITIONS_H
