// GPipe (arXiv 1811.06965): all forwards, then all backwards, in the order of the microbatches.
#include "lib/schedule/builders/Builders.h"

using namespace cleave::schedule;

namespace {
class GPipe : public ScheduleBuilder {
public:
  llvm::StringRef name() const override { return "gpipe"; }
  llvm::StringRef description() const override {
    return "all forwards, then all backwards (arXiv 1811.06965); also forward only";
  }
  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(*this, request, {.chunks = 1, .forwardOnlyAllowed = true});
    if (!program)
      return program.takeError();
    for (unsigned rank = 0; rank < request.ranks; ++rank) {
      std::vector<Action> &list = program->ranks[rank];
      for (unsigned microbatch = 0; microbatch < request.microbatches; ++microbatch)
        list.emplace_back(ActionKind::Forward, rank, microbatch);
      if (request.forwardOnly)
        continue;
      for (unsigned microbatch = 0; microbatch < request.microbatches; ++microbatch)
        list.emplace_back(ActionKind::Backward, rank, microbatch);
    }
    return program;
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createGPipe() {
  return std::make_unique<GPipe>();
}
