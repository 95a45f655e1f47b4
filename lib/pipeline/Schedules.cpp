//===- Schedules.cpp - schedules as ops and as the library's programs ------===//

#include "lib/pipeline/Schedules.h"

#include "lib/schedule/model/Text.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

/// The header is this many lines; then each rank has one.
static constexpr unsigned kHeaderLines = 2;

/// "12:34: message" is of the list in line 12: "the list of rank 9: message".
static std::string placeInList(StringRef message) {
  StringRef rest = message;
  unsigned line = 0, column = 0;
  if (!rest.consume_front(":") || rest.consumeInteger(10, line) || !rest.consume_front(":") ||
      rest.consumeInteger(10, column) || !rest.consume_front(": ") || line <= kHeaderLines)
    return message.ltrim(": ").str();
  return "list of rank " + std::to_string(line - kHeaderLines - 1) + ": " + rest.str();
}

FailureOr<schedule::Program> pipeline::readSchedule(ScheduleOp op) {
  size_t size = 256;
  for (unsigned rank = 0; rank < op.getNumRanks(); ++rank)
    size += op.getList(rank).size() + 16;
  std::string text;
  text.reserve(size);
  llvm::raw_string_ostream os(text);
  os << "ranks " << op.getNumRanks() << " stages " << op.getNumStages() << " microbatches "
     << op.getMicrobatches() << (op.getForwardOnly() ? " forward_only" : "") << '\n'
     << "topology " << op.getTopologyText() << '\n';
  for (unsigned rank = 0; rank < op.getNumRanks(); ++rank)
    os << "rank " << rank << ": " << op.getList(rank) << '\n';
  auto program = schedule::parseText(text, "");
  if (!program) {
    op.emitOpError() << placeInList(llvm::toString(program.takeError()));
    return failure();
  }
  program->name = op.getName().str();
  return std::move(*program);
}

ScheduleOp pipeline::createSchedule(OpBuilder &builder, Location location, StringRef symbol,
                                    const schedule::Program &program, Transfers transfers) {
  SmallVector<Attribute> lists;
  for (const std::vector<schedule::Action> &list : program.ranks) {
    std::string text;
    text.reserve(list.size() * 10);
    for (schedule::Action action : list) {
      if (!text.empty())
        text += ' ';
      text += program.str(action);
    }
    lists.push_back(builder.getStringAttr(text));
  }
  SmallVector<int32_t> stageRanks(program.topology.stageToRank().begin(),
                                  program.topology.stageToRank().end());
  return ScheduleOp::create(builder, location, symbol, program.name, stageRanks,
                            program.numMicrobatches, program.forwardOnly, transfers,
                            builder.getArrayAttr(lists), /*axis=*/StringAttr());
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
