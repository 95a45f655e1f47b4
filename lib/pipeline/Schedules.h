//===- Schedules.h - schedules as ops and as the library's programs -*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_SCHEDULES_H
#define CLEAVE_LIB_PIPELINE_SCHEDULES_H

#include "dialects/pipeline/Pipeline.h"
#include "lib/schedule/model/Program.h"
#include "lib/schedule/model/Verify.h"

namespace cleave::pipeline {

/// What the op's lists say. Checks their grammar and that stages, microbatches and ranks are in
/// range; emits an error on the op, with the rank, otherwise. Whether the schedule makes sense is
/// for schedule::verify to say.
mlir::FailureOr<schedule::Program> readSchedule(ScheduleOp op);

/// Makes the op `@symbol`. Time and memory are linear in the number of actions.
ScheduleOp createSchedule(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef symbol,
                          const schedule::Program &program, Transfers transfers);

/// Emits the problem as an error on the op, each further place as a note.
void emitProblem(ScheduleOp op, const schedule::Problem &problem);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SCHEDULES_H
