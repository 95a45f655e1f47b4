//===- StepMemory.h - what a step of a program needs ---------------*- C++ -*-===//
//
// The memory of a rank that runs a whole step, as `cleave-run --dry-run` reports it: what is there
// all the time, and the most that microbatches, or what runs once per step, need besides.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_STEPMEMORY_H
#define CLEAVE_LIB_MEMORY_STEPMEMORY_H

#include "dialects/train/Program.h"

#include <algorithm>

namespace cleave::memory {

/// A step but for the values of its microbatches, whose peak depends on how they are divided into
/// functions.
struct StepMemory {
  int64_t parameterBytes = 0, bufferBytes = 0, optimizerStateBytes = 0, inputBytes = 0;
  /// Gradients that lie in buckets, for the whole step.
  int64_t bucketBytes = 0;
  /// Other gradients: what a microbatch finds that is not the first.
  int64_t accumulatorBytes = 0;
  /// What the `unshard` function holds while microbatches run.
  int64_t unshardedBytes = 0;
  /// The peak, beside the state, of functions that run once per step, and where it is.
  int64_t oncePeakBytes = 0;
  mlir::Operation *oncePeakOp = nullptr;

  int64_t getStateBytes() const {
    return parameterBytes + bufferBytes + optimizerStateBytes + inputBytes + bucketBytes;
  }
  /// The peak of the step where the values of its microbatches have this one.
  int64_t getPeakBytes(int64_t microbatchPeakBytes) const {
    return getStateBytes() + std::max(oncePeakBytes, unshardedBytes + microbatchPeakBytes);
  }
};

/// The bytes that the bucket of this type holds, for the whole step: those in which gradients
/// gather, and of one that is scattered also the rank's part of the sums. 0 for any other type.
int64_t getBucketBytes(mlir::func::FuncOp function, mlir::Type type);

/// Plans a program that is not in stages.
StepMemory planStep(const train::ProgramFunctions &program, int64_t microbatches);

/// The peak of the values of microbatches that run one after the other, `functions` each: of the
/// first one, in which gradients become the accumulators, and of later ones.
int64_t getMicrobatchPeak(const StepMemory &step, int64_t microbatches, int64_t firstPeakBytes,
                          int64_t laterPeakBytes);

} // namespace cleave::memory

#endif // CLEAVE_LIB_MEMORY_STEPMEMORY_H
