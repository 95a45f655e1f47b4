//===- Chunks.h - which part of a dimension a rank holds -----------*- C++ -*-===//
//
// As torch.chunk: of n elements over a ranks the first hold ceil(n / a), then one may hold less,
// and the rest nothing. Along several axes, each axis divides what the axes before it left.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_DIST_CHUNKS_H
#define CLEAVE_DIALECTS_DIST_CHUNKS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace cleave::dist {

/// A part of a dimension: `size` elements from `offset` on.
struct Chunk {
  int64_t offset = 0;
  int64_t size = 0;

  bool operator==(const Chunk &) const = default;
};

/// What the rank with `index` of `ranks` (at least 1) holds of `size` elements.
Chunk chunkOf(int64_t size, int64_t ranks, int64_t index);

/// The same along several axes, major first: `ranks` are their sizes, `indices` the rank's on each.
Chunk chunkOf(int64_t size, llvm::ArrayRef<int64_t> ranks, llvm::ArrayRef<int64_t> indices);

/// A dimension of `whole` elements, of which a rank holds `local`.
struct DimSplit {
  int64_t local;
  int64_t whole;
};

/// Whether some rank along axes of these sizes, major first, holds the local size of all `splits`
/// at once.
bool someRankHolds(llvm::ArrayRef<DimSplit> splits, llvm::ArrayRef<int64_t> ranks);

} // namespace cleave::dist

#endif // CLEAVE_DIALECTS_DIST_CHUNKS_H
