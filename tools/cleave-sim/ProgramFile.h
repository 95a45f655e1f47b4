// What a program (.mlir, as text or bytecode) says about its pipeline. Hides MLIR from the tool.

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_PROGRAMFILE_H
#define CLEAVE_TOOLS_CLEAVE_SIM_PROGRAMFILE_H

#include "lib/schedule/model/Schedule.h"
#include "lib/schedule/simulate/ProgramCosts.h"

#include <optional>

namespace cleave::sim {

struct ProgramFile {
  std::string path;
  /// The schedule of the program; nothing if none was asked for.
  std::optional<schedule::Schedule> schedule;
  /// What it computes and moves; without stages if the module has none, unless it was read as a
  /// whole.
  simulate::ProgramWork work;
  /// Whether the program is in stages.
  bool isStaged = false;
  /// Seconds to read and verify it, and to look at its ops.
  double readSeconds = 0, measureSeconds = 0;
};

struct ProgramRequest {
  std::string path;
  /// Which pipeline.schedule, if the module has several.
  std::string symbol;
  /// Whether the schedule is read. Otherwise only stages are.
  bool wantsSchedule = true;
  /// Whether times will be computed from the stages' work, which needs the sizes of mesh axes.
  bool wantsTimes = true;
  /// Whether a program without stages will do: it is then one stage, without a schedule.
  bool takesUnstaged = false;
  /// Pipeline ranks, if a schedule has yet to be made.
  unsigned ranks = 0;
  /// Ranks along mesh axes whose size is `?`.
  llvm::StringMap<int64_t> axisSizes;
};

/// Reads and verifies the program; checks that its stages have a function for all that the schedule
/// runs. Errors carry the diagnostics, which say where.
llvm::Expected<ProgramFile> readProgramFile(const ProgramRequest &request);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_PROGRAMFILE_H
