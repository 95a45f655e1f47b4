// What the command line asks for, and the runs it leads to.
#pragma once

#include "Report.h"

#include "lib/schedule/Error.h"

namespace cleave::sim {

struct Request {
  unsigned ranks = 0, microbatches = 0; // 0: not given
  std::optional<unsigned> chunks;
  std::optional<schedule::TopologyStyle> topology;
  simulate::CostTable costs;
  double memoryLimit = std::numeric_limits<double>::infinity();
  bool spanFirst = true;
  double effort = 1;
  uint64_t seed = 1;
  /// "implied", "gloo" or "nccl".
  std::string transfers = "implied";
};

/// Builds (or reads, or searches) and simulates each schedule. Of several, costs are those of a
/// stage at the largest number of chunks among them: a schedule with fewer has longer actions.
llvm::Expected<std::vector<Run>> runAll(const Request &request,
                                        const std::vector<std::string> &names);

} // namespace cleave::sim
