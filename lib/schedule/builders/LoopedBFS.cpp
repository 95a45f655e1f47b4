// Looped breadth-first schedule: Lamy-Poirier, "Breadth-First Pipeline Parallelism"
// (arXiv 2211.05953). Each chunk runs all its microbatches before the next chunk starts;
// backwards run through chunks and microbatches in reverse.
#include "lib/schedule/builders/Builders.h"

using namespace cleave::schedule;

namespace {
class LoopedBFS : public ScheduleBuilder {
public:
  llvm::StringRef name() const override { return "looped-bfs"; }
  llvm::StringRef description() const override {
    return "each chunk runs all microbatches in turn (arXiv 2211.05953); also forward only";
  }
  unsigned defaultChunks() const override { return 2; }
  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(
        *this, request,
        {.topology = TopologyStyle::Loop, .forwardOnlyAllowed = true, .unevenAllowed = true});
    if (!program)
      return program.takeError();
    unsigned microbatches = request.microbatches;
    for (unsigned rank = 0; rank < request.ranks; ++rank) {
      std::vector<Action> &list = program->ranks[rank];
      llvm::ArrayRef<unsigned> stages = program->topology.stagesOf(rank);
      list.reserve(2 * size_t(microbatches) * stages.size());
      for (unsigned stage : stages)
        for (unsigned microbatch = 0; microbatch < microbatches; ++microbatch)
          list.emplace_back(ActionKind::Forward, stage, microbatch);
      if (request.forwardOnly)
        continue;
      for (size_t chunk = stages.size(); chunk-- > 0;)
        for (unsigned microbatch = microbatches; microbatch-- > 0;)
          list.emplace_back(ActionKind::Backward, stages[chunk], microbatch);
    }
    return program;
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createLoopedBFS() {
  return std::make_unique<LoopedBFS>();
}
