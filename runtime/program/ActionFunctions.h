//===- ActionFunctions.h - functions that custom actions run -------*- C++ -*-===//
//
// `call "NAME"` in a schedule runs the function @NAME of the program, if there is one: what it may
// take and return is in docs/schedules.md. It is found and checked when the program is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_ACTIONFUNCTIONS_H
#define CLEAVE_RUNTIME_PROGRAM_ACTIONFUNCTIONS_H

#include "dialects/pipeline/Pipeline.h"
#include "runtime/program/ProgramImpl.h"

namespace cleave::runtime {

/// Finds the functions that `schedule`, which is what `op` says, calls on the ranks of `impl`'s
/// stages. Emits an error with the rank and the action where one does not fit.
mlir::LogicalResult readActionFunctions(pipeline::ScheduleOp op, const schedule::Schedule &schedule,
                                        Program::Impl &impl);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_ACTIONFUNCTIONS_H
