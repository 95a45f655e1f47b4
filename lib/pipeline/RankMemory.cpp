//===- RankMemory.cpp - what the ranks of a pipeline hold ---------------------===//

#include "lib/pipeline/RankMemory.h"

#include "dialects/train/Train.h"
#include "lib/memory/StepMemory.h"
#include "lib/schedule/model/Completions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

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

memory::FunctionPlan cleave::pipeline::measureUnshard(func::FuncOp unshard) {
  if (!unshard)
    return {};
  return memory::planMemory(unshard, /*emptyAccumulators=*/false).functions.front();
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

//===----------------------------------------------------------------------===//
// Receives
//===----------------------------------------------------------------------===//

static int64_t sum(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
}

int64_t ReceiveMemory::bytes() const {
  return sum(slotBytes);
}

/// When slots are free again: what a forward saves of its input lies in its slot until the
/// backward.
static schedule::SlotRelease getRelease(const schedule::Schedule &program, unsigned rank,
                                        ArrayRef<StageMemory> stages) {
  for (auto [number, stage] : llvm::enumerate(stages))
    if (program.topology.rankOf(unsigned(number)) == rank && stage.input.saved > 0)
      return schedule::SlotRelease::AfterBackward;
  return schedule::SlotRelease::AfterForward;
}

static std::vector<int64_t> sizeSlots(const schedule::RankSlots &slots,
                                      ArrayRef<StageMemory> stages) {
  std::vector<int64_t> sizes(slots.numSlots, 0);
  for (const schedule::SlotUse &use : slots.uses) {
    const StageMemory &stage = stages[use.transfer.stage];
    sizes[use.slot] = std::max(sizes[use.slot], schedule::isForwardP2P(use.transfer.kind)
                                                    ? stage.input.message
                                                    : stage.gradient.message);
  }
  return sizes;
}

static schedule::RankSlots assignSlots(const schedule::Schedule &program, unsigned rank,
                                       schedule::SlotRelease release) {
  schedule::SlotOptions options;
  options.release = release;
  return schedule::assignRecvSlots(program, rank, options);
}

ReceiveMemory cleave::pipeline::planReceives(const schedule::Schedule &program, unsigned rank,
                                             ArrayRef<StageMemory> stages) {
  schedule::RankSlots slots = assignSlots(program, rank, getRelease(program, rank, stages));
  return {sizeSlots(slots, stages), std::move(slots.uses)};
}

//===----------------------------------------------------------------------===//
// A rank's list
//===----------------------------------------------------------------------===//

static uint64_t keyOf(Action action) {
  return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
}

RankList::RankList(const schedule::Schedule &program, unsigned rank)
    : program(program), rank(rank),
      briefSlots(assignSlots(program, rank, schedule::SlotRelease::AfterForward)),
      longSlots(assignSlots(program, rank, schedule::SlotRelease::AfterBackward)),
      stagesBefore(program.numStages()) {
  unsigned here = 0;
  for (unsigned stage = 0; stage < program.numStages(); ++stage)
    stagesBefore[stage] = isHere(stage) ? here++ : 0;
  numFrames = here * program.numMicrobatches;
  llvm::DenseMap<uint64_t, unsigned> sends;
  for (Action action : program.ranks[rank])
    program.forEachLeaf(action, [&](Action leaf) {
      Step step{leaf};
      if (schedule::isSend(leaf.kind))
        sends[keyOf(leaf)] = step.begin = numSends++;
      else if (schedule::isCompute(leaf.kind))
        step.frame = getFrame(leaf.stage, leaf.index);
      steps.push_back(step);
    });
  llvm::DenseMap<uint64_t, SmallVector<unsigned, 1>> completions;
  for (auto [computation, send] : schedule::findCompletions(program, rank))
    completions[keyOf(computation)].push_back(sends.lookup(keyOf(send)));
  for (Step &step : steps) {
    if (!schedule::isCompute(step.action.kind))
      continue;
    step.begin = unsigned(completed.size());
    llvm::append_range(completed, completions.lookup(keyOf(step.action)));
    step.end = unsigned(completed.size());
  }
}

class RankList::Walk {
public:
  Walk(const RankList &list, ArrayRef<StageMemory> stages)
      : list(list), stages(stages), held(list.numFrames), received(list.numFrames),
        sent(list.numSends) {
    bool isBrief =
        getRelease(list.program, list.rank, stages) == schedule::SlotRelease::AfterForward;
    live = sum(sizeSlots(isBrief ? list.briefSlots : list.longSlots, stages));
    memory.heldBytes = live;
    note(live);
    // Of a schedule that does not say when, parameters are gathered for the whole step.
    if (llvm::none_of(list.steps,
                      [](const Step &step) { return step.action.kind == ActionKind::Unshard; }))
      for (auto [number, stage] : llvm::enumerate(stages))
        if (list.isHere(unsigned(number)))
          unshard(stage);
  }

  RankMemory run() {
    for (const Step &step : list.steps)
      add(step);
    return memory;
  }

private:
  void add(const Step &step) {
    unsigned number = step.action.stage;
    switch (step.action.kind) {
    case ActionKind::SendForward:
      send(step, stages[number + 1].input.all);
      break;
    case ActionKind::SendBackward:
      send(step, stages[number - 1].gradient.all);
      break;
    case ActionKind::Forward:
      finishSends(step);
      runFunction(step, Phase::Forward, false);
      take(step, stages[number].input);
      if (number + 1 < stages.size() && list.isHere(number + 1))
        hold(number + 1, step.action.index, stages[number + 1].input.all);
      break;
    case ActionKind::Backward:
      finishSends(step);
      if (stages[number].find(Phase::Backward)) {
        runFunction(step, Phase::Backward, true);
      } else {
        runFunction(step, Phase::BackwardInput, false);
        runFunction(step, Phase::BackwardWeight, true);
      }
      giveGradient(step);
      break;
    case ActionKind::BackwardInput:
      finishSends(step);
      runFunction(step, Phase::BackwardInput, false);
      take(step, stages[number].gradient);
      giveGradient(step);
      break;
    case ActionKind::BackwardWeight:
      runFunction(step, Phase::BackwardWeight, true);
      break;
    case ActionKind::Unshard:
      unshard(stages[number]);
      break;
    case ActionKind::Reshard:
      gathered -= stages[number].unshard.returnedBytes;
      break;
    default:
      break;
    }
  }

  /// So much is there of microbatches' values.
  void note(int64_t bytes) {
    memory.valuePeakBytes = std::max(memory.valuePeakBytes, bytes);
    memory.peakBytes = std::max(memory.peakBytes, bytes + gathered);
  }
  void grow(int64_t bytes) {
    live += bytes;
    note(live);
  }
  void unshard(const StageMemory &stage) {
    memory.peakBytes = std::max(memory.peakBytes, live + gathered + stage.unshard.peakBytes);
    gathered += stage.unshard.returnedBytes;
    memory.gatheredBytes = std::max(memory.gatheredBytes, gathered);
    note(live);
  }
  /// What a stage is given is there from now on.
  void hold(unsigned stage, unsigned microbatch, int64_t bytes) {
    received[list.getFrame(stage, microbatch)] += bytes;
    grow(bytes);
  }
  /// The function that takes it has run: only what it saves stays.
  void take(const Step &step, const TakenBytes &taken) {
    int64_t &arrived = received[step.frame];
    int64_t gone = std::min(taken.all - taken.saved, arrived);
    arrived -= gone;
    live -= gone;
  }
  void giveGradient(const Step &step) {
    unsigned number = step.action.stage;
    if (number > 0 && list.isHere(number - 1))
      hold(number - 1, step.action.index, stages[number - 1].gradient.all);
  }
  void send(const Step &step, int64_t bytes) {
    sent[step.begin] = bytes;
    grow(bytes);
  }
  void finishSends(const Step &step) {
    for (unsigned at = step.begin; at < step.end; ++at)
      live -= std::exchange(sent[list.completed[at]], 0);
  }

  void runFunction(const Step &step, Phase phase, bool isLast) {
    int64_t &mine = held[step.frame];
    if (const memory::FunctionPlan *plan = stages[step.action.stage].find(phase)) {
      note(live - mine + plan->peakBytes);
      live += plan->heldBytes - mine;
      mine = plan->heldBytes;
    }
    if (isLast || list.program.forwardOnly)
      live -= std::exchange(mine, 0) + std::exchange(received[step.frame], 0);
    memory.heldBytes = std::max(memory.heldBytes, live);
  }

  const RankList &list;
  ArrayRef<StageMemory> stages;
  std::vector<int64_t> held, received, sent;
  int64_t live, gathered = 0;
  RankMemory memory;
};

RankMemory RankList::follow(ArrayRef<StageMemory> stages) const {
  return Walk(*this, stages).run();
}
