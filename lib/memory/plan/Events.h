//===- Events.h - order between the streams ------------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_EVENTS_H
#define CLEAVE_LIB_MEMORY_PLAN_EVENTS_H

#include "lib/memory/plan/Buffers.h"

namespace cleave::exec {

/// `stream` has to wait, before what runs at `before`, for what stream `other` does at `after`.
struct Event {
  unsigned after = 0, before = 0;
  Stream stream = Stream::Compute; ///< the one that waits
  Stream other = Stream::Compute;
};

/// The events that a function needs whose buffers have places: one for each read after write, write
/// after read or write after write from one stream to another that is not ordered by earlier ones.
/// Arguments and planned memory are ready on the compute stream at time 0, and have to be again at
/// the end; buckets order themselves from one function to the next, and so do copies in the host's
/// memory, which no other stream touches.
std::vector<Event> planEvents(mlir::func::FuncOp function, const ExecutionOrder &order,
                              const Buffers &buffers);

/// Writes `exec.record` and `exec.wait` into the function.
void insertEvents(mlir::func::FuncOp function, const ExecutionOrder &order,
                  llvm::ArrayRef<Event> events);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_EVENTS_H
