//===- Schedules.cpp - schedules as ops and as the library's programs ------===//

#include "lib/pipeline/Schedules.h"
#include "lib/pipeline/ScheduleSource.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

FailureOr<schedule::Schedule> pipeline::readSchedule(ScheduleOp op) {
  FailureOr<schedule::Schedule> program = op.read();
  if (failed(program))
    return failure();
  if (std::optional<schedule::Problem> problem = schedule::checkStructure(*program)) {
    emitProblems(op, *program, *problem);
    return failure();
  }
  return program;
}

void pipeline::emitProblems(ScheduleOp op, const schedule::Schedule &program,
                            ArrayRef<schedule::Problem> problems) {
  if (problems.empty())
    return;
  ScheduleSource source(op, program);
  auto locate = [&](const std::optional<schedule::Place> &place) {
    return place ? source.locate(*place) : op.getLoc();
  };
  auto print = [](Diagnostic &diagnostic, const std::optional<schedule::Place> &place,
                  StringRef message) {
    if (place)
      diagnostic << "rank " << place->rank << ", position " << place->position << ": ";
    diagnostic << message;
  };
  for (const schedule::Problem &problem : problems) {
    // A deadlock is of no one place.
    bool isDeadlock = problem.kind == schedule::ProblemKind::Deadlock;
    std::optional<schedule::Place> place = isDeadlock ? std::nullopt : problem.place;
    InFlightDiagnostic diagnostic = emitError(locate(place)) << "'" << op->getName() << "' op ";
    print(*diagnostic.getUnderlyingDiagnostic(), place, problem.message);
    for (const auto &[where, note] : problem.notes)
      print(diagnostic.attachNote(locate(where)), where, note);
  }
}
