//===- Schedules.cpp - schedules as ops and as the library's programs ------===//

#include "lib/pipeline/Schedules.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

FailureOr<schedule::Program> pipeline::readSchedule(ScheduleOp op) {
  FailureOr<schedule::Program> program = op.read();
  if (failed(program))
    return failure();
  if (std::optional<schedule::Problem> problem = schedule::checkStructure(*program)) {
    emitProblem(op, *problem);
    return failure();
  }
  return program;
}

void pipeline::emitProblem(ScheduleOp op, const schedule::Problem &problem) {
  auto print = [](Diagnostic &diagnostic, const std::optional<schedule::Place> &place,
                  StringRef message) {
    if (place)
      diagnostic << "rank " << place->rank << ", position " << place->position << ": ";
    diagnostic << message;
  };
  InFlightDiagnostic diagnostic = op.emitOpError();
  // A deadlock is of no one place.
  bool isDeadlock = problem.kind == schedule::ProblemKind::Deadlock;
  print(*diagnostic.getUnderlyingDiagnostic(), isDeadlock ? std::nullopt : problem.place,
        problem.message);
  for (const auto &[place, note] : problem.notes)
    print(diagnostic.attachNote(), place, note);
}
