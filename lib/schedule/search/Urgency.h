// When passes are due, and orders that follow it.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_URGENCY_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_URGENCY_H

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

/// What a rank computes for one microbatch.
double periodOf(const Pipeline &pipeline);

/// By pass and stage: when it is due for the first microbatch.
struct Latencies {
  std::vector<double> of[3];
};
Latencies getLatencies(const Pipeline &pipeline, const Urgency &urgency);

/// Every rank takes its passes in the order in which they are due, whatever is ready: microbatches
/// repeat one building block, whose reach decides the memory (Qi et al., "Pipeline Parallelism with
/// Controllable Memory", arXiv 2405.15362). Where memory is short, these orders are better than
/// those of the list scheduler, which takes what it can get.
PassOrder orderByDue(const Pipeline &pipeline, const Urgency &urgency);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_URGENCY_H
