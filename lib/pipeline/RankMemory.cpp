//===- RankMemory.cpp - what the ranks of a pipeline hold ---------------------===//

#include "lib/pipeline/RankMemory.h"

#include "dialects/train/Train.h"
#include "lib/memory/StepMemory.h"
#include "lib/schedule/model/Completions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using schedule::Action;
using schedule::ActionKind;
using train::Phase;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

TakenBytes &TakenBytes::operator+=(const TakenBytes &other) {
  all += other.all;
  saved += other.saved;
  message += other.message;
  return *this;
}

int64_t cleave::pipeline::alignInMessage(int64_t bytes) {
  constexpr uint64_t kAlignment = 64; // as LibTorch's allocators have it
  return int64_t(llvm::alignTo(uint64_t(bytes), kAlignment));
}

TakenBytes cleave::pipeline::countTaken(func::FuncOp function, RoleKind role) {
  llvm::DenseSet<Value> saved;
  for (auto [index, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (train::getResultRole(function, unsigned(index)).getKind() == RoleKind::Saved)
      saved.insert(memory::getStorage(value));
  TakenBytes taken;
  for (BlockArgument argument : function.getArguments()) {
    if (train::getArgumentRole(function, argument.getArgNumber()).getKind() != role)
      continue;
    int64_t bytes = memory::getByteSize(argument.getType());
    taken.all += bytes;
    taken.message += alignInMessage(bytes);
    if (saved.contains(argument))
      taken.saved += bytes;
  }
  return taken;
}

const memory::FunctionPlan *StageMemory::find(Phase phase) const {
  auto found = llvm::find(phases, phase);
  return found == phases.end() ? nullptr : &functions[size_t(found - phases.begin())];
}

StageMemory cleave::pipeline::measureStage(ArrayRef<func::FuncOp> functions, memory::Space space) {
  StageMemory stage;
  for (func::FuncOp function : functions) {
    stage.phases.push_back(
        function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName).getValue());
    if (space == memory::Space::Host)
      continue;
    stage.input += countTaken(function, RoleKind::Crossing);
    stage.gradient += countTaken(function, RoleKind::CrossingGradient);
  }
  stage.functions =
      memory::planMemory(functions, /*emptyAccumulators=*/false, /*owned=*/nullptr, space)
          .functions;
  return stage;
}

void RankState::add(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    bool isBucket = isa<train::BucketType>(argument.getType());
    int64_t *bytes = nullptr;
    switch (role.getKind()) {
    case RoleKind::Parameter:
      bytes = &parameterBytes;
      break;
    case RoleKind::Buffer:
    case RoleKind::Constant:
      bytes = &bufferBytes;
      break;
    case RoleKind::OptimizerState:
      bytes = &optimizerStateBytes;
      break;
    case RoleKind::Input:
    case RoleKind::Target:
      bytes = &inputBytes;
      break;
    case RoleKind::Accumulator:
      bytes = isBucket ? &bucketBytes : &gradientBytes;
      break;
    default:
      continue;
    }
    if (seen.insert(role.getFileName()).second)
      *bytes += isBucket ? memory::getBucketBytes(function, argument.getType())
                         : memory::getByteSize(argument.getType());
  }
}

//===----------------------------------------------------------------------===//
// Receives
//===----------------------------------------------------------------------===//

int64_t ReceiveMemory::bytes() const {
  return std::accumulate(slotBytes.begin(), slotBytes.end(), int64_t(0));
}

ReceiveMemory cleave::pipeline::planReceives(const schedule::Schedule &program, unsigned rank,
                                             ArrayRef<StageMemory> stages) {
  // What a forward saves of its input lies in the slot until the backward.
  bool savesInput = llvm::any_of(llvm::enumerate(stages), [&](const auto &stage) {
    return program.topology.rankOf(unsigned(stage.index())) == rank &&
           stage.value().input.saved > 0;
  });
  schedule::SlotOptions options;
  options.release =
      savesInput ? schedule::SlotRelease::AfterBackward : schedule::SlotRelease::AfterForward;
  schedule::RankSlots slots = schedule::assignRecvSlots(program, rank, options);
  ReceiveMemory plan;
  plan.slotBytes.resize(slots.numSlots, 0);
  for (const schedule::SlotUse &use : slots.uses) {
    const StageMemory &stage = stages[use.transfer.stage];
    int64_t &bytes = plan.slotBytes[use.slot];
    bytes = std::max(bytes, schedule::isForwardP2P(use.transfer.kind) ? stage.input.message
                                                                      : stage.gradient.message);
  }
  plan.uses = std::move(slots.uses);
  return plan;
}

//===----------------------------------------------------------------------===//
// A rank's list
//===----------------------------------------------------------------------===//

namespace {
class Walk {
public:
  Walk(const schedule::Schedule &schedule, unsigned rank, ArrayRef<StageMemory> stages)
      : schedule(schedule), rank(rank), stages(stages),
        live(planReceives(schedule, rank, stages).bytes()) {
    memory = {live, live};
    for (auto [computation, send] : schedule::findCompletions(schedule, rank))
      completed[keyOf(computation)].push_back(send);
  }

  RankMemory run() {
    for (Action action : schedule.ranks[rank])
      schedule.forEachLeaf(action, [&](Action leaf) { add(leaf); });
    return memory;
  }

private:
  void add(Action action) {
    const StageMemory &stage = stages[action.stage];
    switch (action.kind) {
    case ActionKind::SendForward:
      send(action, stages[action.stage + 1].input.all);
      break;
    case ActionKind::SendBackward:
      send(action, stages[action.stage - 1].gradient.all);
      break;
    case ActionKind::Forward:
      finishSends(action);
      runFunction(action, Phase::Forward, false);
      take(action, stage.input);
      if (action.stage + 1 < stages.size() && isHere(action.stage + 1))
        hold(action.stage + 1, action.index, stages[action.stage + 1].input.all);
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

  bool isHere(unsigned stage) const { return schedule.topology.rankOf(stage) == rank; }
  static uint64_t keyOf(Action action) {
    return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
  }

  void grow(int64_t bytes) {
    live += bytes;
    memory.peakBytes = std::max(memory.peakBytes, live);
  }
  /// What a stage is given is there from now on.
  void hold(unsigned stage, unsigned microbatch, int64_t bytes) {
    received[{stage, microbatch}] += bytes;
    grow(bytes);
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
      hold(action.stage - 1u, action.index, stages[action.stage - 1].gradient.all);
  }
  void send(Action action, int64_t bytes) {
    sent[keyOf(action)] = bytes;
    grow(bytes);
  }
  void finishSends(Action computation) {
    for (Action send : completed.lookup(keyOf(computation)))
      live -= std::exchange(sent[keyOf(send)], 0);
  }

  void runFunction(Action action, Phase phase, bool isLast) {
    const memory::FunctionPlan *plan = stages[action.stage].find(phase);
    int64_t &mine = held[{action.stage, action.index}];
    if (plan) {
      memory.peakBytes = std::max(memory.peakBytes, live - mine + plan->peakBytes);
      live += plan->heldBytes - mine;
      mine = plan->heldBytes;
    }
    if (isLast || schedule.forwardOnly) {
      int64_t &arrived = received[{action.stage, action.index}];
      live -= mine + arrived;
      mine = arrived = 0;
    }
    memory.heldBytes = std::max(memory.heldBytes, live);
  }

  const schedule::Schedule &schedule;
  unsigned rank;
  ArrayRef<StageMemory> stages;
  std::map<std::pair<unsigned, unsigned>, int64_t> held, received;
  /// By computation: the sends that are complete when it runs; by send: its bytes in flight.
  llvm::DenseMap<uint64_t, SmallVector<Action, 1>> completed;
  llvm::DenseMap<uint64_t, int64_t> sent;
  int64_t live;
  RankMemory memory;
};
} // namespace

RankMemory cleave::pipeline::followRank(const schedule::Schedule &program, unsigned rank,
                                        ArrayRef<StageMemory> stages) {
  return Walk(program, rank, stages).run();
}
