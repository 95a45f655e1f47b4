// The list of the library's schedules.
#include "lib/schedule/builders/Builders.h"

using namespace cleave::schedule;

void cleave::schedule::addBuiltinSchedules(ScheduleRegistry &registry) {
  auto add = [&](std::unique_ptr<ScheduleBuilder> builder,
                 llvm::ArrayRef<llvm::StringRef> aliases = {}) {
    llvm::cantFail(registry.add(std::move(builder), aliases));
  };
  add(createGPipe());
  add(createLoopedBFS(), {"bfs"});
  add(create1F1B());
  add(createInterleaved1F1B());
  add(createInterleavedZeroBubble(), {"zb1p"});
  add(createZBH1());
  add(createZBH2());
  add(createZBV(), {"zbv-zero-bubble"});
  add(createDualPipeV());
  add(createVHalf());
  add(createVMin());
  add(createOffline());
}
