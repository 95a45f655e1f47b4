// The words of the text form for actions with a stage, by kind.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_ACTIONWORDS_H
#define CLEAVE_LIB_SCHEDULE_MODEL_ACTIONWORDS_H

#include "lib/schedule/model/Action.h"

namespace cleave::schedule {

constexpr llvm::StringLiteral actionWords[] = {
    "F", "B", "I", "W", "sendF", "recvF", "sendB", "recvB", "unshard", "reshard", "reduce", "step"};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_ACTIONWORDS_H
