// What a rank has in the host's memory, and when it copies.
#include "lib/schedule/simulate/Step.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>

using namespace cleave::simulate;
using namespace cleave::schedule;

namespace {
/// Follows a rank's list.
class HostMemory {
public:
  HostMemory(const ProgramWork &program, unsigned microbatches)
      : program(program), microbatches(microbatches), held(program.stages.size() * microbatches) {}

  void add(Action leaf) {
    if (!isCompute(leaf.kind))
      return;
    const StageWork &stage = program.stages[leaf.stage];
    double &mine = held[size_t(leaf.stage) * microbatches + leaf.index];
    auto run = [&](const HostBytes &bytes) {
      peak = std::max(peak, live - mine + bytes.peak);
      live += bytes.held - mine;
      mine = bytes.held;
    };
    switch (leaf.kind) {
    case ActionKind::Forward:
      return run(stage.hostForward);
    case ActionKind::BackwardInput:
      return run(stage.hostInput);
    case ActionKind::BackwardWeight:
      return run(stage.hostWeight);
    default:
      if (stage.hasBackward)
        return run(stage.hostBackward);
      run(stage.hostInput);
      run(stage.hostWeight);
    }
  }

  double peak = 0;

private:
  const ProgramWork &program;
  size_t microbatches;
  double live = 0;
  std::vector<double> held; // by stage and microbatch
};
} // namespace

double cleave::simulate::measureHostMemory(const ProgramWork &program, const Schedule &schedule,
                                           unsigned rank) {
  if (!program.hasHostCopies)
    return 0;
  HostMemory memory(program, schedule.numMicrobatches);
  for (Action action : schedule.ranks[rank])
    schedule.forEachLeaf(action, [&](Action leaf) { memory.add(leaf); });
  return memory.peak;
}

/// The functions of a microbatch that an action runs, in their order.
static llvm::SmallVector<const FunctionTime *, 2>
listFunctions(const ProgramWork &program, llvm::ArrayRef<StageTime> times, Action action) {
  if (!isCompute(action.kind))
    return {};
  const StageTime &time = times[action.stage];
  switch (action.kind) {
  case ActionKind::Forward:
    return {&time.forward};
  case ActionKind::BackwardInput:
    return {&time.input};
  case ActionKind::BackwardWeight:
    return {&time.weight};
  default:
    if (program.stages[action.stage].hasBackward)
      return {&time.backward};
    return {&time.input, &time.weight};
  }
}

std::vector<HostCopy> cleave::simulate::listCopies(const ProgramWork &program,
                                                   const Schedule &schedule,
                                                   llvm::ArrayRef<StageTime> times,
                                                   const Timeline &timeline, unsigned rank) {
  constexpr double milliseconds = 1e3;
  std::vector<HostCopy> copies;
  for (auto [action, time] : llvm::zip_equal(schedule.ranks[rank], timeline.ranks[rank])) {
    // The actions of a group are drawn one after another.
    double begin = time.start;
    schedule.forEachLeaf(action, [&](Action leaf) {
      for (const FunctionTime *function : listFunctions(program, times, leaf)) {
        for (const HostCopy &copy : function->copies)
          copies.push_back(
              {begin + milliseconds * copy.begin, begin + milliseconds * copy.end, copy.isToHost});
        begin += milliseconds * function->seconds;
      }
    });
  }
  return copies;
}
