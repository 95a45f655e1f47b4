// 1F1B (PipeDream-Flush): Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training"
// (arXiv 2006.09503); the non-interleaved schedule of arXiv 2104.04473.
#include "lib/schedule/builders/Builders.h"

using namespace cleave::schedule;

namespace {
class OneFOneB : public ScheduleBuilder {
public:
  llvm::StringRef name() const override { return "1f1b"; }
  llvm::StringRef description() const override {
    return "one forward, one backward in steady state (arXiv 2006.09503)";
  }
  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(*this, request, {.chunks = 1});
    if (!program)
      return program.takeError();
    unsigned microbatches = request.microbatches;
    for (unsigned rank = 0; rank < request.ranks; ++rank) {
      std::vector<Action> &list = program->ranks[rank];
      list.reserve(2 * size_t(microbatches));
      unsigned warmup = std::min(request.ranks - 1 - rank, microbatches);
      unsigned backward = 0;
      for (unsigned forward = 0; forward < microbatches; ++forward) {
        list.emplace_back(ActionKind::Forward, rank, forward);
        if (forward >= warmup)
          list.emplace_back(ActionKind::Backward, rank, backward++);
      }
      while (backward < microbatches)
        list.emplace_back(ActionKind::Backward, rank, backward++);
    }
    return program;
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::create1F1B() {
  return std::make_unique<OneFOneB>();
}
