//===- Allocator.h - CPU memory that steps use again ---------------*- C++ -*-===//
//
// A training step asks for the same sizes again and again. The system allocator gives large blocks
// back to the kernel, which then has to clear every page anew; asking it also costs more than a
// small op. This allocator keeps freed blocks and counts what is in use.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_ALLOCATOR_H
#define CLEAVE_RUNTIME_ATEN_ALLOCATOR_H

#include "cleave/Session.h"

namespace cleave::runtime {

/// Bytes of tensors, as they were asked for.
struct MemoryCounts {
  int64_t current = 0;
  int64_t peak = 0;
};

/// Counts since `installCachingAllocator` (cleave/Session.h).
MemoryCounts memoryCounts();
/// Sets the peak to what is in use now.
void resetMemoryPeak();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_ALLOCATOR_H
