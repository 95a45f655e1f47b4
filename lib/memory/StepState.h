//===- StepState.h - what a step has from beginning to end ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_MEMORY_STEPSTATE_H
#define CLEAVE_LIB_MEMORY_STEPSTATE_H

#include "dialects/train/Program.h"

#include "llvm/ADT/StringSet.h"

namespace cleave::memory {

/// The bytes that a rank has from the beginning to the end of a step, by what they are.
struct StepState {
  int64_t parameterBytes = 0, bufferBytes = 0, optimizerStateBytes = 0, inputBytes = 0;
  /// Buckets in which gradients add up. They are there for the whole step.
  int64_t bucketBytes = 0;
  /// Other gradients that add up: what a microbatch finds that is not the first.
  int64_t gradientBytes = 0;

  /// All but the gradients that are not in buckets.
  int64_t getStateBytes() const {
    return parameterBytes + bufferBytes + optimizerStateBytes + inputBytes + bucketBytes;
  }
  /// Adds what the function needs; what another function of the rank needs, too, counts once.
  void add(mlir::func::FuncOp function);
  /// Appends "2 MiB are parameters, 1 MiB are inputs, ", of what there is of the state.
  void describe(mlir::InFlightDiagnostic &diagnostic) const;

private:
  llvm::StringSet<> seen;
};

/// The bytes that the bucket of this type holds, for the whole step: those in which gradients
/// gather, and of one that is scattered also the rank's part of the sums. 0 for any other type.
int64_t getBucketBytes(mlir::func::FuncOp function, mlir::Type type);

} // namespace cleave::memory

#endif // CLEAVE_LIB_MEMORY_STEPSTATE_H
