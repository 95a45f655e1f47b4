// Builds orders in simulated time: whenever a rank is free, its most urgent ready pass runs.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H

#include "lib/schedule/search/Urgency.h"

namespace cleave::schedule::search {

/// The order, or nullopt if the memory limit blocked every rank. A forward of any chunk but the
/// last leaves room for one more, so that a microbatch begun can always end.
std::optional<PassOrder> listSchedule(const Pipeline &pipeline, const Urgency &urgency);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_LISTSCHEDULER_H
