// Which sends are known to be complete, and when.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_COMPLETIONS_H
#define CLEAVE_LIB_SCHEDULE_MODEL_COMPLETIONS_H

#include "lib/schedule/model/Schedule.h"

namespace cleave::schedule {

/// `send` is complete once the value that `computation` waits for is here: its sender has used what
/// was sent before.
struct Completion {
  Action computation, send;
};

/// What the arrival of values proves about the sends of `rank`, in the order of its list, where
/// transfers of a group come before its computations. A send cannot be asked whether it is
/// complete, only be waited for; after these computations waiting costs nothing. Sends that are
/// not named are complete at the end of the list. The program has sends and receives and passes
/// verify. O(n) in the actions of `rank` and its neighbours, but for sends that stay in flight
/// long.
std::vector<Completion> findCompletions(const Schedule &program, unsigned rank);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_COMPLETIONS_H
