// The builders of this library.

#ifndef CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDERS_H
#define CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDERS_H

#include "lib/schedule/builders/Builder.h"

namespace cleave::schedule {

/// Registers every schedule of this library.
void addBuiltinSchedules(ScheduleRegistry &registry);

std::unique_ptr<ScheduleBuilder> createGPipe();
std::unique_ptr<ScheduleBuilder> createLoopedBFS();
std::unique_ptr<ScheduleBuilder> create1F1B();
std::unique_ptr<ScheduleBuilder> createInterleaved1F1B();
std::unique_ptr<ScheduleBuilder> createInterleavedZeroBubble();
std::unique_ptr<ScheduleBuilder> createZBH1();
std::unique_ptr<ScheduleBuilder> createZBH2();
std::unique_ptr<ScheduleBuilder> createZBV();
std::unique_ptr<ScheduleBuilder> createDualPipeV();
std::unique_ptr<ScheduleBuilder> createVHalf();
std::unique_ptr<ScheduleBuilder> createVMin();
std::unique_ptr<ScheduleBuilder> createOffline();

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_BUILDERS_BUILDERS_H
