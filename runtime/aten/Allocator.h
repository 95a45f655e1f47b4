//===- Allocator.h - CPU memory that steps use again ---------------*- C++ -*-===//
//
// A training step asks for the same sizes again and again. The system allocator gives large blocks
// back to the kernel, which then has to clear every page again; asking it also costs more than a
// small op. This allocator keeps freed blocks and counts what is in use. What a running op asks for
// can be answered with a planned address (Requests.h).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_ALLOCATOR_H
#define CLEAVE_RUNTIME_ATEN_ALLOCATOR_H

#include "cleave/Session.h"

#include <c10/core/Storage.h>

namespace cleave::runtime {

/// Bytes of tensors, as they were asked for.
struct MemoryCounts {
  int64_t current = 0;
  int64_t peak = 0;
  /// Without what ops of lowered functions use inside while they run, and that alone.
  int64_t tensorPeak = 0;
  int64_t workspacePeak = 0;
  /// Of values in the host's memory, which are in none of the above.
  int64_t hostPeak = 0;
};

/// Counts since `installCachingAllocator` (cleave/Session.h).
MemoryCounts memoryCounts();
/// Sets the peaks to what is in use now.
void resetMemoryPeak();

/// What this thread asks for while one of these lives is the host's memory, where the processor
/// stands for a device: neither planned nor counted with the rest.
class HostCountScope {
public:
  HostCountScope();
  ~HostCountScope();
  HostCountScope(const HostCountScope &) = delete;
  static bool isOpen();
};

/// Memory that may have served as an op's workspace has become a result. Memory of other origin
/// is left alone.
void countAsTensor(const c10::Storage &storage);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_ALLOCATOR_H
