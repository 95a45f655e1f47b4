// Orders to start from: the published schedules, variants of ZBV, and building blocks.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_SEEDS_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_SEEDS_H

#include "lib/schedule/search/Score.h"
#include "lib/schedule/search/Urgency.h"

namespace cleave::schedule::search {

/// One microbatch at a time: slow, but with the least memory a schedule can have.
PassOrder oneAtATime(const Pipeline &pipeline);

/// ZBV's order with the last input gradients of ranks 1 to `count` swapped: after its last forward
/// a rank takes each remaining gradient of chunk 1 before the one of chunk 0 that precedes it. In
/// ZBV the last microbatch's gradient waits there once for a full round trip between neighbours,
/// which shortens everything after it.
PassOrder swapLastGradients(const PassOrder &zbv, unsigned count);

/// A building block of a V (two chunks): all its passes go from rank to rank at steady speeds, in
/// the two forwards together in a part of the period, and in the input gradients at the same
/// speeds. So ranks meet their four passes in few arrangements only, whatever passes cost;
/// orderByDue() repeats it. The rest is drawn: how the speeds differ, the waits at the ends, and
/// when weight gradients are due.
Urgency drawBlock(const Pipeline &pipeline, Random &random);

/// `order` is for `pipeline.microbatches`; repeats one round of each rank's steady state (one of
/// each of its passes, between two forwards of chunk 0) until there are `microbatches`. The round
/// is the last one that begins at least `back` such forwards before the end. Nullopt if a rank
/// has none.
std::optional<PassOrder> stretch(const Pipeline &pipeline, const PassOrder &order,
                                 unsigned microbatches, unsigned back);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_SEEDS_H
