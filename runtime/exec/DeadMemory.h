//===- DeadMemory.h - when planned memory is free again ------------*- C++ -*-===//
//
// For checks: a plan that gives memory away too early, or an op that reads what it did not make,
// shows when memory is filled with NaN as soon as nobody needs it. Found anew from the ops and
// where their results lie, without what made the plan.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_DEADMEMORY_H
#define CLEAVE_RUNTIME_EXEC_DEADMEMORY_H

#include "mlir/IR/Operation.h"

#include <vector>

namespace cleave::runtime {

/// Bytes of the arena.
struct DeadRange {
  int64_t offset = 0, bytes = 0;
};

/// For each group of ops that one instruction executes, in order: what is dead after it.
std::vector<std::vector<DeadRange>>
findDeadMemory(llvm::ArrayRef<llvm::SmallVector<mlir::Operation *, 1>> groups);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DEADMEMORY_H
