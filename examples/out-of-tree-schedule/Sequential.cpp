// Your own schedule, in a module that Cleave's tools load.
//
// "sequential" is what model parallelism does without a pipeline: a microbatch runs through all
// stages, forward and back, before the next one starts. The least memory, the largest bubble.
#include "lib/schedule/builders/Builder.h"

#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace cleave::schedule;

namespace {
class Sequential : public ScheduleBuilder {
public:
  llvm::StringRef name() const override { return "sequential"; }
  llvm::StringRef description() const override { return "one microbatch at a time (an example)"; }

  llvm::Expected<Schedule> build(const BuildRequest &request) const override {
    // Checks the request (and says what is wrong with it), and places the stages.
    auto program = startSchedule(*this, request, {.forwardOnlyAllowed = true});
    if (!program)
      return program.takeError();
    for (unsigned rank = 0; rank < request.ranks; ++rank) {
      // The chunks of this rank, in the order in which the data meets them.
      llvm::ArrayRef<unsigned> stages = program->topology.stagesOf(rank);
      std::vector<Action> &list = program->ranks[rank];
      for (unsigned microbatch = 0; microbatch < request.microbatches; ++microbatch) {
        for (unsigned stage : stages)
          list.emplace_back(ActionKind::Forward, stage, microbatch);
        if (request.forwardOnly)
          continue;
        for (unsigned stage : llvm::reverse(stages))
          list.emplace_back(ActionKind::Backward, stage, microbatch);
      }
    }
    // Sends and receives are not the builder's business: insertP2P adds them.
    return program;
  }
};
} // namespace

// --load-pass-plugin loads the module and calls what this function returns. There is no pass to
// register, only the schedule.
extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "SequentialSchedule", "0.1",
          [] { registerSchedule(std::make_unique<Sequential>()); }};
}
