// kind=auto: searches the order of passes and the placement of chunks.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_AUTO_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_AUTO_H

#include "lib/schedule/search/LowerBound.h"
#include "lib/schedule/simulate/Metrics.h"

#include <limits>

namespace cleave::schedule::search {

struct AutoRequest {
  unsigned ranks = 1;
  unsigned microbatches = 1;
  /// Stages per rank.
  unsigned chunks = 1;
  /// Unset: loop and V are both tried.
  std::optional<TopologyStyle> topology = std::nullopt;
  simulate::CostTable costs;
  /// Activation memory of every rank, in the cost table's unit.
  double memoryLimit = std::numeric_limits<double>::infinity();
  /// What to minimise: the largest span of a rank (what repeated steps take without a barrier
  /// between them), or the makespan (with one).
  bool spanFirst = true;
  /// Work to spend, 1 for a few seconds. The result depends on this and the seed only.
  double effort = 1;
  uint64_t seed = 1;
};

struct AutoResult {
  Schedule program;
  simulate::Metrics metrics;
  /// The bound for the topologies searched: no order can be better.
  LowerBound bound;
  /// Where the best order came from: "zbv", "search", ...
  std::string origin;
  double seconds = 0;
};

/// Finds a compute-only program within the memory limit that is no worse than every registered
/// schedule that fits: its makespan is at most theirs, and so is what is minimised. Where the costs
/// have only whole backwards, it is the best registered schedule without
/// halves, and there is no bound. Errors: a request no builder could serve; a limit below what one
/// microbatch needs.
llvm::Expected<AutoResult> findSchedule(const AutoRequest &request);

/// The table with an upper bound of the activation memory where an input gradient adds some: the
/// search takes gradients to release memory.
simulate::CostTable boundMemory(simulate::CostTable costs);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_AUTO_H
