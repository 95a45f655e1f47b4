// What the builders of this library share: the checks before they start, and their registration.
#pragma once

#include "lib/schedule/Builder.h"

namespace cleave::schedule {

/// What a schedule asks of a request, beyond at least one rank, chunk and microbatch.
struct Preconditions {
  std::optional<unsigned> chunks = std::nullopt;
  /// Checked where there is more than one chunk.
  std::optional<TopologyStyle> topology = std::nullopt;
  bool forwardOnlyAllowed = false;
};

/// Checks the request and returns a program without actions; the builder fills the lists.
llvm::Expected<Program> startProgram(const ScheduleBuilder &builder, const BuildRequest &request,
                                     const Preconditions &needs);

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
