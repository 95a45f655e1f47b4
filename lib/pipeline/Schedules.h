//===- Schedules.h - schedules as ops and as the library's programs -*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_SCHEDULES_H
#define CLEAVE_LIB_PIPELINE_SCHEDULES_H

#include "dialects/pipeline/Pipeline.h"
#include "lib/schedule/model/Program.h"
#include "lib/schedule/model/Verify.h"

namespace cleave::pipeline {

/// What the op says, with each action on the rank that holds its stage (schedule::checkStructure);
/// emits an error otherwise. Whether the schedule makes sense is for schedule::verify to say.
mlir::FailureOr<schedule::Program> readSchedule(ScheduleOp op);

/// Emits the problem as an error on the op, each further place as a note.
void emitProblem(ScheduleOp op, const schedule::Problem &problem);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_SCHEDULES_H
