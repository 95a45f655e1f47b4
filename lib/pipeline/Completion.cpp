//===- Completion.cpp - what runs once per step, added to a schedule ---------===//

#include "lib/pipeline/Completion.h"

#include "lib/pipeline/Stages.h"
#include "lib/schedule/model/Transforms.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using schedule::Action;
using schedule::ActionKind;

/// The steps and sums that a list ends with begin here.
static std::vector<Action>::iterator findTail(std::vector<Action> &list) {
  auto tail = list.end();
  while (tail != list.begin() && (std::prev(tail)->kind == ActionKind::OptimizerStep ||
                                  std::prev(tail)->kind == ActionKind::Collective))
    --tail;
  return tail;
}

namespace {
class Completer {
public:
  Completer(ArrayRef<train::ProgramFunctions> stages, const CompletionOptions &options,
            schedule::Schedule &program, Location location)
      : stages(stages), once(getOncePerStep(stages)), options(options), program(program),
        location(location) {
    once.buckets.resize(program.numStages(), 0);
  }

  LogicalResult run() {
    if (options.dropsIdle)
      dropIdle();
    if (failed(addUnshards()))
      return failure();
    if (!program.forwardOnly) {
      addReductions();
      addStageSums(stages, program);
      if (once.update)
        schedule::addOptimizerSteps(program);
    }
    dropIdleStages();
    return success();
  }

private:
  bool has(std::initializer_list<ActionKind> kinds) const {
    for (const std::vector<Action> &list : program.ranks)
      for (Action action : list) {
        bool found = false;
        program.forEachLeaf(action,
                            [&](Action leaf) { found |= llvm::is_contained(kinds, leaf.kind); });
        if (found)
          return true;
      }
    return false;
  }

  void dropIdle() {
    for (std::vector<Action> &list : program.ranks)
      llvm::erase_if(list, [&](Action action) {
        if (action.kind == ActionKind::Unshard || action.kind == ActionKind::Reshard)
          return !stages[action.stage].unshard;
        return action.kind == ActionKind::ReduceGrad && once.buckets[action.stage] == 0;
      });
  }

  LogicalResult addUnshards() {
    constexpr unsigned kUsual = 3;
    unsigned maximum = !once.unshard ? 0 : options.maxUnsharded ? options.maxUnsharded : kUsual;
    if (has({ActionKind::Unshard, ActionKind::Reshard})) {
      if (!options.maxUnsharded)
        return success();
      return emitError(location) << "expects 'max-unsharded' for schedules without unshards, but '"
                                 << program.name << "' has some";
    }
    if (maximum)
      if (llvm::Error error = schedule::addUnshards(program, maximum))
        return emitError(location) << llvm::toString(std::move(error));
    return success();
  }

  /// A reduce function that waits for its stage's buckets would hold up what the rank still
  /// computes: those that are added run at the end of the list, in the order of their stages'
  /// reductions.
  void addReductions() {
    auto isWait = [&](Action action) {
      return action.kind == ActionKind::ReduceGrad && once.waits[action.stage] &&
             action.index + 1 == once.buckets[action.stage];
    };
    std::vector<bool> isGiven(stages.size(), false);
    for (const std::vector<Action> &list : program.ranks)
      for (Action action : list)
        if (isWait(action))
          isGiven[action.stage] = true;
    schedule::addGradientReductions(program, once.buckets);
    for (std::vector<Action> &list : program.ranks)
      std::stable_partition(list.begin(), findTail(list), [&](Action action) {
        return !isWait(action) || isGiven[action.stage];
      });
  }

  /// The library treats all stages alike; a stage without parameters has nothing to update or
  /// gather.
  void dropIdleStages() {
    for (std::vector<Action> &list : program.ranks)
      llvm::erase_if(list, [&](Action action) {
        if (action.kind == ActionKind::OptimizerStep)
          return once.update && !stages[action.stage].update;
        return once.unshard && !stages[action.stage].unshard &&
               (action.kind == ActionKind::Unshard || action.kind == ActionKind::Reshard);
      });
  }

  ArrayRef<train::ProgramFunctions> stages;
  OncePerStep once;
  const CompletionOptions &options;
  schedule::Schedule &program;
  Location location;
};
} // namespace

LogicalResult pipeline::completeSchedule(ArrayRef<train::ProgramFunctions> stages,
                                         const CompletionOptions &options,
                                         schedule::Schedule &program, Location location) {
  return Completer(stages, options, program, location).run();
}

void pipeline::removeStageSums(schedule::Schedule &program) {
  for (std::vector<Action> &list : program.ranks)
    llvm::erase_if(list, [&](Action action) {
      return action.kind == ActionKind::Collective &&
             llvm::StringRef(program.collectiveOf(action).name).starts_with(kStageSumPrefix);
    });
}
