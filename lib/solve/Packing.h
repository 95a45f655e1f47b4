//===- Packing.h - offsets of buffers within a capacity -*- C++ -*-===//
//
// Buffers that are live at the same time must not overlap in space. A search places them from the
// bottom up, each as low as those before it allow, and turns back where some time's buffers no
// longer fit above what is placed. Parts that share no time are placed apart from each other. It
// restarts often, in orders that begin with what was live where earlier searches failed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_PACKING_H
#define CLEAVE_LIB_SOLVE_PACKING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace cleave::solve {

/// Live at start <= time < end.
struct Buffer {
  int64_t start, end, size;
};

struct Packing {
  std::vector<int64_t> offsets;
  int64_t height = 0;
  /// No packing is lower: the largest sum of live sizes, or `height` where a search showed more.
  int64_t lowerBound = 0;
  /// Whether the search showed that nothing fits within the capacity.
  bool isImpossible = false;
};

/// Parses lines of id, start, end and size, separated by commas, with ids from 0 in rising order.
/// Errors name the file and the line.
llvm::Expected<std::vector<Buffer>> parseBuffers(llvm::StringRef text, llvm::StringRef name,
                                                 int64_t capacity);

/// The largest sum of sizes at a time.
int64_t getPeak(llvm::ArrayRef<Buffer> buffers);
bool isPacking(llvm::ArrayRef<Buffer> buffers, llvm::ArrayRef<int64_t> offsets);

/// Stops at the first packing within the capacity; else it returns the lowest found. The same seed
/// gives the same packing unless it is stopped.
Packing pack(llvm::ArrayRef<Buffer> buffers, int64_t capacity, uint64_t seed,
             llvm::function_ref<bool()> isStopped);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_PACKING_H
