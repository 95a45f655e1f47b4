// Random search and evolution over the parameters of the list scheduler.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_EVOLUTION_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_EVOLUTION_H

#include "lib/schedule/search/Score.h"

namespace cleave::schedule::search {

/// Spends about `budget` passes scheduled (so that the result does not depend on the machine's
/// speed); improves `best` where it finds something better.
void evolve(const Pipeline &pipeline, const Objective &objective, double budget, uint64_t seed,
            Solution &best);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_EVOLUTION_H
