// No pipeline: one rank runs every stage, microbatch by microbatch.
#include "lib/schedule/builders/Builders.h"
#include "lib/support/Error.h"

using namespace cleave::schedule;
using cleave::makeError;

namespace {
class Offline : public ScheduleBuilder {
public:
  llvm::StringRef name() const override { return "offline"; }
  llvm::StringRef description() const override {
    return "all stages on one rank, one microbatch after the other; also forward only";
  }
  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    if (request.ranks != 1)
      return makeError("schedule '{0}' runs on exactly 1 rank, found {1}", name(), request.ranks);
    auto program = startSchedule(*this, request, {.forwardOnlyAllowed = true});
    if (!program)
      return program.takeError();
    unsigned stages = program->numStages();
    std::vector<Action> &list = program->ranks[0];
    for (unsigned microbatch = 0; microbatch < request.microbatches; ++microbatch) {
      for (unsigned stage = 0; stage < stages; ++stage)
        list.emplace_back(ActionKind::Forward, stage, microbatch);
      for (unsigned stage = request.forwardOnly ? 0 : stages; stage-- > 0;)
        list.emplace_back(ActionKind::Backward, stage, microbatch);
    }
    return program;
  }
};
} // namespace

std::unique_ptr<ScheduleBuilder> cleave::schedule::createOffline() {
  return std::make_unique<Offline>();
}
