// ZB-H1 and ZB-H2, the handcrafted schedules of Qi et al., "Zero Bubble Pipeline Parallelism"
// (arXiv 2401.10241, section 2): one chunk a rank, the backward split in two.
//
// Both are 1F1B in which the weight gradient of a microbatch runs some backwards later: by the
// rank's number in ZB-H1 (the memory of 1F1B), by twice that in ZB-H2, which also starts twice as
// many forwards before the first backward (about twice the memory).
#include "lib/schedule/builders/Builders.h"

using namespace cleave::schedule;

namespace {
class ZeroBubbleH : public ScheduleBuilder {
public:
  explicit ZeroBubbleH(unsigned variant) : variant(variant) {}
  llvm::StringRef name() const override { return variant == 1 ? "zb-h1" : "zb-h2"; }
  llvm::StringRef description() const override {
    return variant == 1 ? "zero bubble at the memory of 1F1B (arXiv 2401.10241)"
                        : "zero bubble at twice the memory of 1F1B (arXiv 2401.10241)";
  }
  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    auto program = startSchedule(*this, request, {.chunks = 1});
    if (!program)
      return program.takeError();
    unsigned microbatches = request.microbatches;
    for (unsigned rank = 0; rank < request.ranks; ++rank) {
      std::vector<Action> &list = program->ranks[rank];
      list.reserve(3 * size_t(microbatches));
      unsigned warmup = std::min(variant * (request.ranks - 1 - rank), microbatches);
      unsigned delay = variant * rank, forward = 0, weight = 0;
      while (forward < warmup)
        list.emplace_back(ActionKind::Forward, rank, forward++);
      for (unsigned backward = 0; backward < microbatches; ++backward) {
        if (forward < microbatches)
          list.emplace_back(ActionKind::Forward, rank, forward++);
        list.emplace_back(ActionKind::BackwardInput, rank, backward);
        if (backward >= delay)
          list.emplace_back(ActionKind::BackwardWeight, rank, weight++);
      }
      while (weight < microbatches)
        list.emplace_back(ActionKind::BackwardWeight, rank, weight++);
    }
    return program;
  }

private:
  unsigned variant;
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createZBH1() {
  return std::make_unique<ZeroBubbleH>(1);
}
std::unique_ptr<ScheduleBuilder> cleave::schedule::createZBH2() {
  return std::make_unique<ZeroBubbleH>(2);
}
