//===- RankGroup.h - The ranks of a collective, in its order ----*- C++ -*-===//
//
// A communicator numbers its members by their rank in the world. A collective along mesh axes
// counts them in row-major order of the axes as the op names them, which may be another order; and
// several axes divide a dimension one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_RANKGROUP_H
#define CLEAVE_RUNTIME_COMM_RANKGROUP_H

#include "runtime/comm/Communicator.h"

#include "llvm/ADT/SmallVector.h"

namespace cleave::runtime {

/// A range of a tensor's dimension.
struct Part {
  int64_t begin = 0;
  int64_t size = 0;
};

/// The part `index` of a dimension of size `whole` that is divided over `count` ranks: the first
/// ones hold ceil(whole / count) each, then one may hold less, and the rest nothing (torch.chunk).
Part partOf(int64_t whole, int64_t count, int64_t index);

struct RankGroup {
  Communicator *communicator = nullptr;
  /// Sizes of the axes, in the order in which they are named.
  llvm::SmallVector<int64_t, 2> sizes;
  /// The communicator's rank at each place.
  llvm::SmallVector<int, 8> rankAt;
  /// Where this rank is.
  int place = 0;

  int size() const { return static_cast<int>(rankAt.size()); }
  /// What the rank at `place` holds of a dimension of size `whole`, which the first axis divides,
  /// each part of it the second one, and so on.
  Part partAt(int64_t whole, int place) const;

  /// All ranks of a communicator, in its order.
  static RankGroup of(Communicator &communicator);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_RANKGROUP_H
