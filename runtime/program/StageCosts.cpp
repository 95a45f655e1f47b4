//===- StageCosts.cpp - what each rank of a schedule needs --------------------===//
//
// Memory by going through a rank's list: what functions hold for later ones of their microbatch,
// what comes from other stages of the rank until it is used up, what is sent until that is known to
// be complete, the slots of what other ranks send, and the peak inside of each function.
//
//===----------------------------------------------------------------------===//

#include "cleave/Session.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/StepMemory.h"
#include "lib/schedule/model/Completions.h"
#include "runtime/program/MicrobatchFrames.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/program/ReceivePlan.h"
#include "runtime/program/StepWork.h"
#include "runtime/program/TakenValues.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace cleave;
using namespace cleave::runtime;
using schedule::Action;
using schedule::ActionKind;

namespace {
/// One stage's functions of a microbatch, in the order in which they run.
struct StagePlan {
  std::vector<Phase> phases;
  memory::MemoryPlan plan;
  /// What comes from the stage before, and from the one after.
  TakenBytes input, gradient;

  const memory::FunctionPlan *find(Phase phase) const {
    for (auto [index, each] : llvm::enumerate(phases))
      if (each == phase)
        return &plan.functions[index];
    return nullptr;
  }
};

/// Follows a rank's list.
class Walk {
public:
  /// `receiveBytes`: of the slots of receives, which are there from beginning to end.
  Walk(const Program::Impl &impl, int64_t place, const std::vector<StagePlan> &plans,
       int64_t receiveBytes)
      : peak(receiveBytes), maxHeld(receiveBytes), schedule(impl.schedule->program),
        place(unsigned(place)), plans(plans), live(receiveBytes) {
    for (auto [computation, send] : schedule::findCompletions(schedule, this->place))
      completed[keyOf(computation)].push_back(send);
  }

  void run() {
    for (Action action : schedule.ranks[place])
      schedule.forEachLeaf(action, [&](Action leaf) { add(leaf); });
  }
  int64_t peak, maxHeld;

private:
  void add(Action action) {
    const StagePlan &stage = plans[action.stage];
    switch (action.kind) {
    case ActionKind::SendForward:
      send(action, plans[action.stage + 1].input.all);
      break;
    case ActionKind::SendBackward:
      send(action, plans[action.stage - 1].gradient.all);
      break;
    case ActionKind::Forward:
      finishSends(action);
      runFunction(action, Phase::Forward, false);
      take(action, stage.input);
      if (action.stage + 1 < plans.size() && isHere(action.stage + 1))
        hold(action.stage + 1, action.index, plans[action.stage + 1].input.all);
      break;
    case ActionKind::Backward:
      finishSends(action);
      if (stage.find(Phase::Backward)) {
        runFunction(action, Phase::Backward, true);
      } else {
        runFunction(action, Phase::BackwardInput, false);
        runFunction(action, Phase::BackwardWeight, true);
      }
      giveGradient(action);
      break;
    case ActionKind::BackwardInput:
      finishSends(action);
      runFunction(action, Phase::BackwardInput, false);
      take(action, stage.gradient);
      giveGradient(action);
      break;
    case ActionKind::BackwardWeight:
      runFunction(action, Phase::BackwardWeight, true);
      break;
    default:
      break;
    }
  }

  bool isHere(unsigned stage) const { return schedule.topology.rankOf(stage) == place; }
  static uint64_t keyOf(Action action) {
    return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
  }

  /// What a stage is given is there from now on.
  void hold(unsigned stage, unsigned microbatch, int64_t bytes) {
    received[{stage, microbatch}] += bytes;
    live += bytes;
    peak = std::max(peak, live);
  }
  /// The function that takes it has run: only what it saves stays.
  void take(Action action, const TakenBytes &taken) {
    int64_t &arrived = received[{action.stage, action.index}];
    int64_t gone = std::min(taken.all - taken.saved, arrived);
    arrived -= gone;
    live -= gone;
  }
  void giveGradient(Action action) {
    if (action.stage > 0 && isHere(action.stage - 1u))
      hold(action.stage - 1u, action.index, plans[action.stage - 1].gradient.all);
  }
  void send(Action action, int64_t bytes) {
    sent[keyOf(action)] = bytes;
    live += bytes;
    peak = std::max(peak, live);
  }
  void finishSends(Action computation) {
    for (Action send : completed.lookup(keyOf(computation)))
      live -= std::exchange(sent[keyOf(send)], 0);
  }

  void runFunction(Action action, Phase phase, bool isLast) {
    const memory::FunctionPlan *plan = plans[action.stage].find(phase);
    int64_t &mine = held[{action.stage, action.index}];
    if (plan) {
      peak = std::max(peak, live - mine + plan->peakBytes);
      live += plan->heldBytes - mine;
      mine = plan->heldBytes;
    }
    if (isLast || schedule.forwardOnly) {
      int64_t &arrived = received[{action.stage, action.index}];
      live -= mine + arrived;
      mine = arrived = 0;
    }
    maxHeld = std::max(maxHeld, live);
  }

  const schedule::Schedule &schedule;
  unsigned place;
  const std::vector<StagePlan> &plans;
  std::map<std::pair<unsigned, unsigned>, int64_t> held, received;
  /// By computation: the sends that are complete when it runs; by send: its bytes in flight.
  llvm::DenseMap<uint64_t, llvm::SmallVector<Action, 1>> completed;
  llvm::DenseMap<uint64_t, int64_t> sent;
  int64_t live;
};
} // namespace

static std::vector<StagePlan> planStages(const Program::Impl &impl) {
  std::vector<StagePlan> plans(impl.functions.stages.size());
  for (auto [number, plan] : llvm::enumerate(plans)) {
    std::vector<mlir::func::FuncOp> functions;
    for (const PhaseFunction &part : impl.phaseFunctions) {
      if (part.stage != int64_t(number) || !llvm::is_contained(impl.microbatchPhases, part.phase))
        continue;
      plan.phases.push_back(part.phase);
      functions.push_back(part.function);
      plan.input += countTaken(part, RoleKind::Crossing);
      plan.gradient += countTaken(part, RoleKind::CrossingGradient);
    }
    plan.plan = memory::planMemory(functions, /*emptyAccumulators=*/false);
  }
  return plans;
}

/// Adds what a rank holds from beginning to end because it runs the function.
static void addState(const PhaseFunction &part, llvm::StringSet<> &seen, ProgramCosts &costs) {
  mlir::func::FuncOp function = part.function;
  for (auto [value, type] :
       llvm::zip_equal(part.signature.arguments, function.getArgumentTypes())) {
    int64_t *bytes = nullptr;
    switch (value.role) {
    case RoleKind::Parameter:
      bytes = &costs.parameterBytes;
      break;
    case RoleKind::Buffer:
    case RoleKind::Constant:
      bytes = &costs.bufferBytes;
      break;
    case RoleKind::OptimizerState:
      bytes = &costs.optimizerStateBytes;
      break;
    case RoleKind::Input:
    case RoleKind::Target:
      bytes = &costs.inputBytes;
      break;
    case RoleKind::Accumulator:
      bytes = value.members.empty() ? &costs.gradientBytes : &costs.bucketBytes;
      break;
    default:
      continue;
    }
    if (seen.insert(value.fileName).second)
      *bytes +=
          value.members.empty() ? value.type.numBytes() : memory::getBucketBytes(function, type);
  }
}

/// How often a rank runs the functions of its stages, by what its list says.
static StepWork measureWork(const Program::Impl &impl, int64_t place,
                            const std::vector<StagePlan> &plans) {
  const schedule::Schedule &schedule = impl.schedule->program;
  std::map<std::pair<int64_t, ActionKind>, int64_t> runs;
  StepWork work;
  for (Action action : schedule.ranks[place])
    schedule.forEachLeaf(action, [&](Action leaf) {
      ++runs[{leaf.stage, leaf.kind}];
      if (leaf.kind == ActionKind::SendForward)
        work.addSend(impl.schedule->info.axis, plans[leaf.stage + 1].input.all);
      else if (leaf.kind == ActionKind::SendBackward)
        work.addSend(impl.schedule->info.axis, plans[leaf.stage - 1].gradient.all);
    });
  auto countRuns = [&](int64_t stage, Phase phase) -> int64_t {
    switch (phase) {
    case Phase::Forward:
      return runs[{stage, ActionKind::Forward}];
    case Phase::Backward:
      return runs[{stage, ActionKind::Backward}];
    case Phase::BackwardInput: // a full backward runs both halves
      return runs[{stage, ActionKind::BackwardInput}] + runs[{stage, ActionKind::Backward}];
    case Phase::BackwardWeight:
      return runs[{stage, ActionKind::BackwardWeight}] + runs[{stage, ActionKind::Backward}];
    case Phase::Unshard:
      return runs[{stage, ActionKind::Unshard}];
    default:
      return 1;
    }
  };
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (schedule.topology.rankOf(unsigned(part.stage)) == place)
      work.add(part.function, countRuns(part.stage, part.phase));
  return work;
}

static ProgramCosts computeCosts(const Program &program, int64_t place,
                                 const std::vector<StagePlan> &plans) {
  const Program::Impl &impl = program.impl();
  ProgramCosts costs;
  llvm::StringSet<> seen;
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (impl.schedule->program.topology.rankOf(unsigned(part.stage)) == place) {
      addState(part, seen, costs);
      costs.arenaBytes = std::max(costs.arenaBytes, memory::getArenaBytes(part.function));
    }
  Walk walk(impl, place, plans, planReceives(program, place).bytes());
  walk.run();
  costs.savedBytes = walk.maxHeld;
  costs.activationPeakBytes = walk.peak;
  costs.stateBytes = costs.parameterBytes + costs.bufferBytes + costs.optimizerStateBytes +
                     costs.inputBytes + costs.bucketBytes;
  costs.frameBytes = planStageFrames(program, place).bytes;
  costs.peakBytes =
      costs.stateBytes + costs.arenaBytes + costs.frameBytes + costs.gradientBytes + walk.peak;
  measureWork(impl, place, plans).writeTo(costs);
  return costs;
}

ProgramCosts cleave::runtime::computeStageCosts(const Program &program, int64_t place) {
  return ::computeCosts(program, place, planStages(program.impl()));
}

std::vector<ProgramCosts> cleave::runtime::computeScheduleCosts(const Program &program) {
  std::vector<StagePlan> plans = planStages(program.impl());
  std::vector<ProgramCosts> costs;
  for (int64_t place = 0; place < program.schedule()->ranks; ++place)
    costs.push_back(::computeCosts(program, place, plans));
  return costs;
}

std::string cleave::runtime::describeSchedule(const Program &program,
                                              const std::vector<ProgramCosts> &costs) {
  const ProgramSchedule &plan = *program.impl().schedule;
  std::string text =
      llvm::formatv("schedule '{0}': {1} rank{2} along \"{3}\", {4} microbatches per step\n",
                    plan.info.name, plan.info.ranks, plan.info.ranks == 1 ? "" : "s",
                    plan.info.axis, plan.info.microbatches)
          .str();
  for (int64_t place = 0; place < plan.info.ranks; ++place) {
    std::map<ActionKind, int64_t> counts;
    for (Action action : plan.program.ranks[place])
      plan.program.forEachLeaf(action, [&](Action leaf) { ++counts[leaf.kind]; });
    std::vector<std::string> words, stages;
    for (unsigned stage : plan.program.topology.stagesOf(unsigned(place)))
      stages.push_back(std::to_string(stage));
    for (auto [kind, count] : counts)
      words.push_back(llvm::formatv("{0} {1}", count, schedule::getKindName(kind)));
    text += llvm::formatv("  rank {0}: stage{1} {2}; {3}; peak {4}, of it state {5}\n", place,
                          stages.size() == 1 ? "" : "s", llvm::join(stages, ", "),
                          llvm::join(words, ", "), describeBytes(costs[place].peakBytes),
                          describeBytes(costs[place].stateBytes))
                .str();
  }
  return text;
}

llvm::Error cleave::runtime::checkScheduleMemoryLimit(const Program &program, int64_t limit) {
  for (auto [place, costs] : llvm::enumerate(computeScheduleCosts(program))) {
    if (costs.peakBytes > limit)
      return llvm::createStringError(
          llvm::inconvertibleErrorCode(),
          llvm::formatv("program '{0}' needs {1} of memory on rank {2} along \"{3}\" by schedule "
                        "'{4}', more than --memory-limit {5}:\n{6}",
                        program.path(), describeBytes(costs.peakBytes), place,
                        program.schedule()->axis, program.schedule()->name, describeBytes(limit),
                        llvm::StringRef(describeMemory(costs)).rtrim())
              .str());
  }
  return llvm::Error::success();
}
