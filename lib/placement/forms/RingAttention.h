//===- RingAttention.h - a sequence over the ranks of a ring --------*- C++ -*-===//
//
// What forward and backward of ring attention share: the blocks of keys and values on their way,
// and which part of a causal or given mask belongs to a step.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_FORMS_RINGATTENTION_H
#define CLEAVE_LIB_PLACEMENT_FORMS_RINGATTENTION_H

#include "lib/placement/forms/LocalBuilder.h"

namespace cleave::placement {

/// The sequence dimension of queries, keys and values.
constexpr int64_t sequenceDim = 2;

/// Step i of a ring: this rank holds the block of the rank i places before it.
class AttentionRing {
public:
  AttentionRing(LocalBuilder &b, Axes axes, bool isCausal, Value mask, int64_t keys)
      : b(b), axes(std::move(axes)), isCausal(isCausal), mask(mask), keys(keys) {}

  int64_t steps() const { return axes.ranks; }
  bool isLast(int64_t step) const { return step + 1 == axes.ranks; }
  /// Whether the block's own causal mask applies: on the diagonal only.
  bool isDiagonal(int64_t step) const { return isCausal && step == 0; }
  /// Whether the step's block may come after all of this rank's queries.
  bool mayFollow(int64_t step) const { return isCausal && step > 0; }
  /// Where it does: a 0-d boolean. The first `step` ranks hold blocks from the ring's end.
  Value follows(int64_t step);
  /// The columns of the given mask that belong to the step's block; null without a mask.
  Value maskOf(int64_t step);

  /// Sends the values on to the next rank: futures.
  llvm::SmallVector<Value> send(llvm::ArrayRef<Value> values);
  void receive(llvm::ArrayRef<Value> futures, llvm::MutableArrayRef<Value> values);

private:
  LocalBuilder &b;
  Axes axes;
  bool isCausal;
  Value mask;
  /// Keys in a block.
  int64_t keys;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_FORMS_RINGATTENTION_H
