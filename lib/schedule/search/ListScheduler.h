// Builds orders in simulated time: whenever a rank is free, its most urgent ready pass runs.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H

#include "lib/schedule/search/Pipeline.h"

namespace cleave::schedule::search {

/// When each pass should run, as linear functions: pass x of microbatch b at stage s is due at
/// b * period + a latency that depends on x and s. What is due earlier is more urgent; leads
/// between passes in the steady state follow from the latencies.
struct Urgency {
  /// By chunk: the forward and the input gradient pass on at these multiples of their own time.
  std::vector<double> forwardSlack, inputSlack;
  /// In periods: extra latency at each end of a chunk, before the first input gradient, and of the
  /// weight gradient after its input gradient (by chunk: on the first and on the last rank).
  double forwardTurn = 0, lossTurn = 0, backwardTurn = 0;
  std::vector<double> weightDelayFirst, weightDelayLast;
  /// A ready pass waits for a more urgent one that comes within this part of its own duration.
  double patience = 0.5;
};

/// The order, or nullopt if the memory limit blocked every rank. A forward of any chunk but the
/// last leaves room for one more, so that a microbatch begun can always end.
std::optional<PassOrder> listSchedule(const Pipeline &pipeline, const Urgency &urgency);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H
