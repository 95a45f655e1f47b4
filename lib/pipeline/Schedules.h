//===- Schedules.h - schedules as ops and as the library's programs -*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_SCHEDULES_H
#define CLEAVE_LIB_PIPELINE_SCHEDULES_H

#include "dialects/pipeline/Pipeline.h"
#include "lib/schedule/model/Schedule.h"
#include "lib/schedule/model/Verify.h"

namespace cleave::pipeline {

/// What the op says, with each action on the rank that holds its stage (schedule::checkStructure);
/// emits an error otherwise. Whether the schedule makes sense is for schedule::verify to say.
mlir::FailureOr<schedule::Schedule> readSchedule(ScheduleOp op);

/// Emits problems of `program`, what the op says, as errors with a note for each further place: at
/// the action in the op's text or in the schedule's file, where these can be read, else at the op.
void emitProblems(ScheduleOp op, const schedule::Schedule &program,
                  llvm::ArrayRef<schedule::Problem> problems);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SCHEDULES_H
