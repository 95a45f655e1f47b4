//===- Chunks.cpp - which part of a dimension a rank holds -------------------===//

#include "dialects/dist/Chunks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>

using namespace cleave::dist;

Chunk cleave::dist::chunkOf(int64_t size, int64_t ranks, int64_t index) {
  int64_t largest = size / ranks + (size % ranks != 0);
  // index * largest is below 2^63 only where index < ranks; clamp before multiplying.
  int64_t offset = largest == 0 ? 0 : std::min(index, size / largest + 1) * largest;
  offset = std::min(offset, size);
  return {offset, std::min(largest, size - offset)};
}

Chunk cleave::dist::chunkOf(int64_t size, llvm::ArrayRef<int64_t> ranks,
                            llvm::ArrayRef<int64_t> indices) {
  Chunk chunk{0, size};
  for (auto [count, index] : llvm::zip_equal(ranks, indices)) {
    Chunk part = chunkOf(chunk.size, count, index);
    chunk = {chunk.offset + part.offset, part.size};
  }
  return chunk;
}

bool cleave::dist::someRankHolds(llvm::ArrayRef<DimSplit> splits, llvm::ArrayRef<int64_t> ranks) {
  if (ranks.empty())
    return llvm::all_of(splits, [](DimSplit split) { return split.local == split.whole; });
  // Ranks fall into few classes (full, less, nothing): try one of each, for each dimension.
  int64_t count = ranks.front();
  llvm::SmallVector<int64_t> candidates = {0};
  for (DimSplit split : splits) {
    int64_t largest = chunkOf(split.whole, count, 0).size;
    int64_t full = largest ? split.whole / largest : 0;
    for (int64_t index : {full - 1, full, full + 1})
      if (index > 0 && index < count)
        candidates.push_back(index);
  }
  return llvm::any_of(candidates, [&](int64_t index) {
    llvm::SmallVector<DimSplit, 2> parts(splits);
    for (DimSplit &part : parts)
      part.whole = chunkOf(part.whole, count, index).size;
    return someRankHolds(parts, ranks.drop_front());
  });
}
