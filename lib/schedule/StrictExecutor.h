// Runs a program on threads, one a rank, over transfers that buffer nothing: the check on the
// verifier. It shares no code with it: verdicts are compared in test/unit/schedule.
#pragma once

#include "lib/schedule/CommModel.h"
#include "lib/schedule/Program.h"

namespace cleave::schedule {

struct Execution {
  /// All ranks waited and nothing could happen any more.
  bool stuck = false;
  /// How far each rank came: the position of the action it was at; the list's length at the end.
  std::vector<size_t> positions;
  /// Compute actions that met no value, or the value of another stage or microbatch.
  std::vector<std::string> dataErrors;
};

/// Executes the program, which must pass checkStructure. Instead of tensors, values are passed that
/// say which stage and microbatch made them. Every wait is a real wait of a thread; transfers are
/// matched as the model says, and take place only while both ends are in progress. For tests: it
/// takes time quadratic in the number of transfers that are under way together.
Execution executeStrictly(const Program &program, const CommModel &model);

} // namespace cleave::schedule
