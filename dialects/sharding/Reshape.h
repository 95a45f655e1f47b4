//===- Reshape.h - factors of a tensor seen in another shape ----------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_SHARDING_RESHAPE_H
#define CLEAVE_DIALECTS_SHARDING_RESHAPE_H

#include "dialects/sharding/ShardingRule.h"

namespace cleave::sharding {

/// Writes the factors of operand 0 of shape `from` and of result 0 of shape `to`, the same elements
/// in row-major order, to `rule`, whose lists have these ranks.
///
/// From the front, each pair of dimensions shares the greatest common divisor of what is left of
/// them: 8x4 to 2x16 is [a b, c] to [a, b c] with a = 2, b = 4, c = 4. Where that is 1 on both
/// sides (6x4 to 4x6, after 2), cuts would no longer be at the same elements: all up to the next
/// place where both sides have had as many elements is whole.
///
/// A dimension of size 1 may be what is left of a larger one: locally, 1x4 to 1x4 is a part of 2x4
/// to 2x4, or of 2x4 to 1x8. So it has a factor of size 1 for each dimension of the other side that
/// begins at the same element, up to the first larger one: [a b, c] to [a, b c d] and the like.
void reshapeFactors(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to, ShardingRule &rule);

} // namespace cleave::sharding

#endif // CLEAVE_DIALECTS_SHARDING_RESHAPE_H
