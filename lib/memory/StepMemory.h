//===- StepMemory.h - what a step of a program needs ---------------*- C++ -*-===//
//
// The memory of a rank that runs a whole step, as `cleave-run --dry-run` reports it: what is there
// all the time, and the most that microbatches, or what runs once per step, need besides.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_STEPMEMORY_H
#define CLEAVE_LIB_MEMORY_STEPMEMORY_H

#include "lib/memory/StepState.h"

#include <algorithm>

namespace cleave::memory {

/// A step but for the values of its microbatches, whose peak depends on how they are divided into
/// functions.
struct StepMemory {
  StepState state;
  /// What the `unshard` function holds while microbatches run.
  int64_t unshardedBytes = 0;
  /// The peak, beside the state, of functions that run once per step, and where it is.
  int64_t oncePeakBytes = 0;
  mlir::Operation *oncePeakOp = nullptr;

  /// The peak of the step where the values of its microbatches have this one.
  int64_t getPeakBytes(int64_t microbatchPeakBytes) const {
    return state.getStateBytes() + std::max(oncePeakBytes, unshardedBytes + microbatchPeakBytes);
  }
};

/// Plans a program that is not in stages.
StepMemory planStep(const train::ProgramFunctions &program, int64_t microbatches);

/// The peak of the values of microbatches that run one after the other, `functions` each: of the
/// first one, in which gradients become the accumulators, and of later ones.
int64_t getMicrobatchPeak(const StepMemory &step, int64_t microbatches, int64_t firstPeakBytes,
                          int64_t laterPeakBytes);

} // namespace cleave::memory

#endif // CLEAVE_LIB_MEMORY_STEPMEMORY_H
