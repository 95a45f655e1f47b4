// Improves an order by moving single passes, mostly on its critical path.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_LOCALSEARCH_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_LOCALSEARCH_H

#include "lib/schedule/search/Score.h"

namespace cleave::schedule::search {

/// Simulated annealing from `start` over about `budget` passes evaluated; improves `best`. Moves
/// keep microbatches in order and the memory limit.
void anneal(const Pipeline &pipeline, const Objective &objective, const PassOrder &start,
            double budget, uint64_t seed, Solution &best);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_LOCALSEARCH_H
