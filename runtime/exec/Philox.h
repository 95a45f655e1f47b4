//===- Philox.h - random numbers that any rank can draw by index ---*- C++ -*-===//
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011),
// a bijection of 128-bit counters under a 64-bit key. A number depends on the seed, the place of
// its op and the index of its element in the whole tensor, and on nothing else: not on how the
// tensor lies on the mesh.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_PHILOX_H
#define CLEAVE_RUNTIME_EXEC_PHILOX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <cstdint>

namespace cleave::runtime {

using PhiloxBlock = std::array<uint32_t, 4>;

/// The four numbers at a counter, least significant word first.
PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key);

/// Writes words [first, first + words.size()) of a stream of 2^66 32-bit words. `seed` is the key;
/// the counter is the number of the block of four words in its lower half, `stream` in its upper.
void philoxWords(uint64_t seed, uint64_t stream, uint64_t first,
                 llvm::MutableArrayRef<uint32_t> words);

/// What a rank draws of a whole tensor.
struct DrawnPart {
  llvm::SmallVector<int64_t, 4> whole;
  /// First index of the part, by dimension, and its sizes.
  llvm::SmallVector<int64_t, 4> begin, sizes;

  /// Calls `body` for the runs of elements that follow each other in part and whole alike, both in
  /// row-major order: index in the part, index in the whole, number of elements.
  void forEachRun(llvm::function_ref<void(int64_t, int64_t, int64_t)> body) const;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_PHILOX_H
