//===- MemoryPlan.h - how much memory a function will use ----------*- C++ -*-===//
//
// Liveness over the list of ops, as the executor runs them: a value's memory is there from the op
// that makes it to the last use of the value or of a view of it. What kernels allocate and free
// inside is not known and not counted.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_MEMORYPLAN_H
#define CLEAVE_RUNTIME_PROGRAM_MEMORYPLAN_H

#include "runtime/program/ProgramImpl.h"

namespace cleave::runtime {

struct MemoryPlan {
  /// Most bytes of values made by the function's ops that live at one time. Arguments are not
  /// counted, nor what ops write into the memory of an argument.
  int64_t peakBytes = 0;
  /// The op during which that is so; null for a function without ops.
  mlir::Operation *peakOp = nullptr;
  /// Bytes that results keep when the function has returned.
  int64_t resultBytes = 0;
};

/// `emptyAccumulators`: a step's first microbatch, in which gradients become the accumulators.
MemoryPlan planMemory(mlir::func::FuncOp function, bool emptyAccumulators);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_MEMORYPLAN_H
