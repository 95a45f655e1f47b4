//===- DeadMemory.h - when planned memory is free again ------------*- C++ -*-===//
//
// For checks: a plan that gives memory away too early, or an op that reads what it did not make,
// shows when memory is filled with NaN as soon as it is dead. Derived again from the ops and
// where their results lie, without what made the plan.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_DEADMEMORY_H
#define CLEAVE_RUNTIME_EXEC_DEADMEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace cleave::runtime {

/// Bytes of the arena, or of a frame, counted from the arena's beginning.
struct DeadRange {
  int64_t offset = 0, bytes = 0;
};

/// By op: what is dead in its microbatch's frame when it has run, counted from the frame's
/// beginning.
using FrameEnds = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<DeadRange, 1>>;
/// Those of all functions of a program.
FrameEnds findFrameEnds(mlir::ModuleOp module);

/// For each group of ops that one instruction executes, in order: what is dead after it. `frame`:
/// where the frame begins.
std::vector<std::vector<DeadRange>>
findDeadMemory(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *, 1>> groups,
               const FrameEnds &frameEnds, int64_t frame);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DEADMEMORY_H
