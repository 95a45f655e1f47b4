// What no order of the passes can beat, under the memory limit.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_LOWERBOUND_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_LOWERBOUND_H

#include "lib/schedule/search/Pipeline.h"

namespace cleave::schedule::search {

struct LowerBound {
  double makespan = 0;
  /// Lower bound of the largest span of any rank (start of its first pass to end of its last).
  double largestSpan = 0;
};

/// The argument, for ranks q <= r (by their first stages):
/// - Start: rank r cannot start before its first stage's input has come down from rank q.
/// - Head: until its first input gradient can start (one microbatch's way from r's first stage to
///   the loss and back to r's last) rank r has only forwards to run, as many as the memory holds.
/// - Tail: let r's last forward start at time t. Its microbatch still has to go to the loss and
/// back
///   to q's first stage, then the weight gradient. Rank r, after t, has only work on what its
///   memory holds at t; all the rest it has done before t, and the idle time of the head too.
/// Together: q ends no earlier than the sum of r's start, head, work before t, and the way after t.
LowerBound lowerBound(const Pipeline &pipeline);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_LOWERBOUND_H
