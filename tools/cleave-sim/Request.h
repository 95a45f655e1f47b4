// What the command line asks for, and the runs it leads to.

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_REQUEST_H
#define CLEAVE_TOOLS_CLEAVE_SIM_REQUEST_H

#include "ProgramFile.h"
#include "Report.h"

#include "lib/support/Error.h"

namespace cleave::sim {

struct Request {
  unsigned ranks = 0, microbatches = 0; // 0: not given
  std::optional<unsigned> chunks;
  /// Stages of all ranks, where these cannot have the same number.
  std::optional<unsigned> stages;
  std::optional<schedule::TopologyStyle> topology;
  simulate::CostTable costs;
  /// Whether its times and its memory are known to be that; any unit will do.
  bool isMilliseconds = false, isBytes = false;
  /// Whose schedule is simulated, where names are empty, and whose stages the costs are of.
  std::optional<ProgramFile> program;
  /// Where the costs are from, if from a cluster.
  std::optional<cost::Cluster> cluster;
  simulate::RunOptions runOptions;
  /// Of the cluster.
  std::vector<simulate::StageTime> stageTimes;
  double memoryLimit = std::numeric_limits<double>::infinity();
  bool spanFirst = true;
  double effort = 1;
  uint64_t seed = 1;
  /// "implied", "gloo" or "nccl".
  std::string transfers = "implied";
};

/// Builds (or reads, or searches) and simulates each schedule; without names, that of the program.
/// Of several, uniform costs are those of a stage at the largest number of chunks among them: a
/// schedule with fewer has longer actions. A program's stages are run several as one where a
/// schedule has fewer.
llvm::Expected<std::vector<Run>> runAll(Request request, const std::vector<std::string> &names);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_REQUEST_H
