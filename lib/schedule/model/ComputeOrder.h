// A simulation of a compute-only program: in which order its actions end.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_COMPUTEORDER_H
#define CLEAVE_LIB_SCHEDULE_MODEL_COMPUTEORDER_H

#include "lib/schedule/model/P2P.h"

namespace cleave::schedule {

/// The rank whose next action ends, for every action of the program, in order of time. Fails,
/// naming the blocked actions, where the program cannot run to its end.
llvm::Expected<std::vector<uint16_t>> simulateCompute(const Schedule &program,
                                                      const P2POptions &options);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_COMPUTEORDER_H
