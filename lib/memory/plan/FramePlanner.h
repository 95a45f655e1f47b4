//===- FramePlanner.h - where saved values lie ---------------------*- C++ -*-===//
//
// Plans the frame of a microbatch: what its functions save for each other has a lifetime that
// begins in one function and ends in another.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_FRAMEPLANNER_H
#define CLEAVE_LIB_MEMORY_PLAN_FRAMEPLANNER_H

#include "lib/memory/FrameGroups.h"
#include "lib/memory/plan/Buffers.h"
#include "lib/memory/plan/Packing.h"

namespace cleave::exec {

/// A function whose values get places.
struct PlannedFunction {
  mlir::func::FuncOp function;
  std::unique_ptr<ExecutionOrder> order;
  std::unique_ptr<Buffers> buffers;
};

struct FramePlan {
  /// The time at which each function begins, in the time of all of them one after the other, and
  /// the end of the last.
  std::vector<unsigned> begins;
  /// What lies in the frame, its intervals of that time, and their places.
  std::vector<Buffer *> values;
  std::vector<Interval> intervals;
  Packing packing;
};

/// Gives places to the values that `functions`, a microbatch's in their order, save for each other
/// and for no other function: from when a value is made to its last use in any of them. Marks them,
/// and the arguments that show them, in the functions' buffers.
FramePlan planFrame(llvm::MutableArrayRef<PlannedFunction> functions, int64_t alignment);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_FRAMEPLANNER_H
