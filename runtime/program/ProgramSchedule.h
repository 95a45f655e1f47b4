//===- ProgramSchedule.h - the schedule that a program carries ----*- C++ -*-===//
//
// A program in stages may hold a `pipeline.schedule`. It is read and proved when the program is
// loaded: what would hang, or compute with the wrong values, is refused before any rank starts.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_PROGRAMSCHEDULE_H
#define CLEAVE_RUNTIME_PROGRAM_PROGRAMSCHEDULE_H

#include "cleave/Program.h"
#include "lib/schedule/model/Schedule.h"

#include "llvm/Support/LogicalResult.h"

namespace cleave::runtime {

struct ProgramSchedule {
  ScheduleInfo info;
  schedule::Schedule program;
  /// Whether the lists have sends and receives; if not, one rank can run the stages.
  bool hasTransfers = false;
};

/// Reads the module's schedule, if it has one, into `impl`, checks it against the stages, proves it
/// for matching by tag, and puts its axis on the mesh. Emits an error on the schedule otherwise.
llvm::LogicalResult readSchedule(Program::Impl &impl);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_PROGRAMSCHEDULE_H
