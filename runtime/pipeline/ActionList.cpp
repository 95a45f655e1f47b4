//===- ActionList.cpp - one rank's part of a schedule, compiled ---------------===//

#include "runtime/pipeline/ActionList.h"
#include "dialects/train/Stages.h"
#include "lib/pipeline/Stages.h"
#include "lib/schedule/model/Completions.h"
#include "runtime/io/Error.h"
#include "runtime/program/ReceivePlan.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::runtime;
using cleave::schedule::Action;
using cleave::schedule::ActionKind;
using Kind = ScheduledAction::Kind;

namespace {
class Compiler {
public:
  Compiler(const Program &program, const StageMap &stages, const UserCallbacks &callbacks)
      : program(program), impl(program.impl()), plan(*impl.schedule), stages(stages),
        callbacks(callbacks) {}

  llvm::Expected<ActionList> run();

private:
  llvm::Error add(Action action, uint32_t position);
  bool findCalled(ScheduledAction &entry) const;
  llvm::Error findCallback(ScheduledAction &entry) const;
  ScheduledAction make(Action action, uint32_t position) const;
  void findFunctions(ScheduledAction &entry) const;
  uint32_t findChannel(bool isForward, int64_t stage);
  llvm::Error checkOnceAStep() const;
  void nameMessages(ScheduledAction &entry) const;
  void findCompletions();
  void assignReceives();
  void assignSends();
  void markMicrobatches();
  void countValues();
  void partSteps();
  bool isShared(int64_t stage) const;
  std::optional<uint32_t> findSum(llvm::StringRef name);

  const Program &program;
  const Program::Impl &impl;
  const ProgramSchedule &plan;
  const StageMap &stages;
  const UserCallbacks &callbacks;
  ActionList list;
};
} // namespace

static uint64_t keyOf(Action action) {
  return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
}

/// Phases of the functions that an action runs, in their order.
static llvm::ArrayRef<Phase> phasesOf(ActionKind kind) {
  static constexpr Phase kBackward[] = {Phase::Backward, Phase::BackwardInput,
                                        Phase::BackwardWeight};
  static constexpr Phase kForward = Phase::Forward, kUnshard = Phase::Unshard,
                         kReduce = Phase::Reduce, kUpdate = Phase::Update;
  llvm::ArrayRef<Phase> backward(kBackward);
  switch (kind) {
  case ActionKind::Forward:
    return kForward;
  case ActionKind::Backward:
    return backward;
  case ActionKind::BackwardInput:
    return backward.slice(1, 1);
  case ActionKind::BackwardWeight:
    return backward.slice(2, 1);
  case ActionKind::Unshard:
    return kUnshard;
  case ActionKind::ReduceGrad:
    return kReduce;
  case ActionKind::OptimizerStep:
    return kUpdate;
  default:
    return {};
  }
}

void Compiler::findFunctions(ScheduledAction &entry) const {
  // A bucket's reduction has started with the last contribution, in the backward itself; after the
  // buckets comes the reduce function.
  if (entry.action.kind == ActionKind::ReduceGrad &&
      entry.action.index <
          train::listReducedBuckets(impl.functions.stages[entry.action.stage]).size())
    return;
  for (Phase phase : phasesOf(entry.action.kind))
    for (auto [index, part] : llvm::enumerate(impl.phaseFunctions))
      if (part.phase == phase && part.stage == entry.action.stage)
        entry.functions.push_back(index);
}

/// The channel of what `stage` makes; its values are in the order of the producer's results.
uint32_t Compiler::findChannel(bool isForward, int64_t stage) {
  for (auto [index, channel] : llvm::enumerate(list.channels))
    if (channel.isForward == isForward && channel.stage == stage)
      return index;
  Channel channel;
  channel.isForward = isForward;
  channel.stage = stage;
  channel.from = stages.placeOf(stage);
  channel.to = stages.placeOf(isForward ? stage + 1 : stage - 1);
  channel.number = 2 * stage + (isForward ? 0 : 1);
  RoleKind role = isForward ? RoleKind::Crossing : RoleKind::CrossingGradient;
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (part.stage == stage)
      for (const ValueInfo &value : part.signature.results)
        if (value.role == role)
          channel.values.push_back({value.name, value.type});
  list.channels.push_back(std::move(channel));
  return list.channels.size() - 1;
}

ScheduledAction Compiler::make(Action action, uint32_t position) const {
  ScheduledAction entry;
  entry.action = action;
  entry.position = position;
  entry.text = plan.program.str(action);
  if (schedule::hasMicrobatch(action.kind))
    entry.microbatch = action.microbatch();
  findFunctions(entry);
  return entry;
}

llvm::Error Compiler::add(Action action, uint32_t position) {
  ScheduledAction entry = make(action, position);
  int64_t stage = action.stage;
  switch (action.kind) {
  case ActionKind::Forward:
    if (stage > 0 && !stages.holds(stage - 1))
      entry.channel = findChannel(true, stage - 1);
    break;
  case ActionKind::Backward:
  case ActionKind::BackwardInput:
    if (stage + 1 < int64_t(plan.program.numStages()) && !stages.holds(stage + 1))
      entry.channel = findChannel(false, stage + 1);
    break;
  case ActionKind::BackwardWeight:
    break;
  case ActionKind::SendForward:
  case ActionKind::SendBackward:
    entry.kind = Kind::Send;
    entry.channel = findChannel(action.kind == ActionKind::SendForward, stage);
    entry.send = list.numSends++;
    break;
  case ActionKind::RecvForward:
    entry.kind = Kind::Receive;
    entry.channel = findChannel(true, stage - 1);
    break;
  case ActionKind::RecvBackward:
    entry.kind = Kind::Receive;
    entry.channel = findChannel(false, stage + 1);
    break;
  case ActionKind::Unshard:
  case ActionKind::ReduceGrad:
  case ActionKind::OptimizerStep:
    entry.kind = Kind::Once;
    break;
  case ActionKind::Reshard:
    entry.kind = Kind::Release;
    break;
  case ActionKind::Collective: {
    llvm::StringRef name = plan.program.collectiveOf(action).name;
    if (name.consume_front(pipeline::kStageSumPrefix))
      if (std::optional<uint32_t> sum = findSum(name)) {
        entry.kind = Kind::Sum;
        entry.sum = *sum;
        break;
      }
    [[fallthrough]];
  }
  case ActionKind::Custom:
    if (findCalled(entry))
      break;
    if (llvm::Error error = findCallback(entry))
      return error;
    break;
  case ActionKind::Compose:
    return llvm::Error::success();
  }
  if (entry.kind == Kind::Send || entry.kind == Kind::Receive)
    nameMessages(entry);
  list.actions.push_back(std::move(entry));
  return llvm::Error::success();
}

void Compiler::nameMessages(ScheduledAction &entry) const {
  for (const Channel::Value &value : list.channels[entry.channel].values)
    entry.messages.push_back(entry.text + " (\"" + value.name + "\")");
}

/// Whether a custom action calls a function of the program.
bool Compiler::findCalled(ScheduledAction &entry) const {
  if (entry.action.kind != ActionKind::Custom)
    return false;
  const std::string &name = plan.program.customOf(entry.action).name;
  for (auto [index, function] : llvm::enumerate(impl.actionFunctions))
    if (function.name == name) {
      entry.kind = Kind::Call;
      entry.actionFunction = index;
      return true;
    }
  return false;
}

llvm::Error Compiler::findCallback(ScheduledAction &entry) const {
  entry.kind = Kind::User;
  if (entry.action.kind == ActionKind::Custom) {
    const schedule::CustomAction &custom = plan.program.customOf(entry.action);
    entry.user.name = custom.name;
    if (custom.stage != schedule::CustomAction::noIndex)
      entry.user.stage = custom.stage;
    if (custom.microbatch != schedule::CustomAction::noIndex)
      entry.user.microbatch = custom.microbatch;
  } else {
    const schedule::CollectiveAction &collective = plan.program.collectiveOf(entry.action);
    entry.user.name = collective.name;
    entry.user.places = collective.ranks;
  }
  if (auto found = callbacks.find(entry.user.name.str());
      found != callbacks.end() && found->second) {
    entry.callback = found->second;
    return llvm::Error::success();
  }
  bool isCall = entry.action.kind == ActionKind::Custom;
  return makeError(
      "schedule '{0}', rank {1}, position {2}: {3} is an action of the embedding "
      "program: expected {4}a callback for \"{5}\" (SessionOptions::actions), found {6}",
      plan.info.name, stages.place(), entry.position, entry.text,
      isCall ? ("a function @" + entry.user.name + " or ").str() : "", entry.user.name,
      isCall ? "neither" : "none");
}

/// The sum over stages with that name; none if no stage gives a term of it.
std::optional<uint32_t> Compiler::findSum(llvm::StringRef name) {
  for (auto [index, sum] : llvm::enumerate(list.sums))
    if (sum.name == name)
      return index;
  StageSumExchange sum{name.str(), {}, std::vector<bool>(plan.program.numStages())};
  for (const PhaseFunction &part : impl.phaseFunctions)
    for (const ValueInfo &value : part.signature.results)
      if (value.role == RoleKind::StageSum && value.name == name) {
        sum.type = value.type;
        sum.hasTerm[part.stage] = true;
      }
  if (!llvm::is_contained(sum.hasTerm, true))
    return std::nullopt;
  list.sums.push_back(std::move(sum));
  return list.sums.size() - 1;
}

/// What has to run once per step but is in no list would leave parameters sharded, or gradients
/// unreduced.
llvm::Error Compiler::checkOnceAStep() const {
  for (auto [index, part] : llvm::enumerate(impl.phaseFunctions)) {
    bool isOnce = part.phase == Phase::Unshard || part.phase == Phase::Reduce;
    if (!isOnce || !stages.runs(part))
      continue;
    bool runs = llvm::any_of(list.actions, [&, wanted = index](const ScheduledAction &entry) {
      return llvm::is_contained(entry.functions, wanted);
    });
    if (!runs)
      return makeError("stage {0} has a function of phase {1}, but schedule '{2}' never runs it",
                       part.stage, getPhaseName(part.phase), plan.info.name);
  }
  return llvm::Error::success();
}

void Compiler::findCompletions() {
  llvm::DenseMap<uint64_t, ScheduledAction *> entries;
  for (ScheduledAction &entry : list.actions)
    if (entry.kind == Kind::Compute || entry.kind == Kind::Send)
      entries[keyOf(entry.action)] = &entry;
  for (auto [computation, send] : schedule::findCompletions(plan.program, unsigned(stages.place())))
    entries.lookup(keyOf(computation))->completes.push_back(entries.lookup(keyOf(send))->send);
}

/// The slot of each transfer.
static llvm::DenseMap<uint64_t, unsigned> indexSlots(llvm::ArrayRef<schedule::SlotUse> uses) {
  llvm::DenseMap<uint64_t, unsigned> slots;
  for (const schedule::SlotUse &use : uses)
    slots[keyOf(use.transfer)] = use.slot;
  return slots;
}

void Compiler::assignReceives() {
  pipeline::ReceiveMemory receives = planReceives(program, stages.place());
  llvm::DenseMap<uint64_t, unsigned> slots = indexSlots(receives.uses);
  for (ScheduledAction &entry : list.actions)
    if (entry.kind == Kind::Receive)
      entry.slot = slots.lookup(keyOf(entry.action));
  list.receiveSlots = std::move(receives.slotBytes);
}

void Compiler::assignSends() {
  schedule::SendSlots sends = schedule::assignSendSlots(plan.program, unsigned(stages.place()));
  llvm::DenseMap<uint64_t, unsigned> slots = indexSlots(sends.uses);
  list.sendSlots.resize(sends.numSlots);
  for (ScheduledAction &entry : list.actions) {
    if (entry.kind != Kind::Send)
      continue;
    entry.slot = slots.lookup(keyOf(entry.action));
    int64_t bytes = 0;
    for (const Channel::Value &value : list.channels[entry.channel].values)
      bytes += pipeline::alignInMessage(value.type.numBytes());
    list.sendSlots[entry.slot] = std::max(list.sendSlots[entry.slot], bytes);
  }
}

void Compiler::markMicrobatches() {
  bool readsInputs = llvm::any_of(
      impl.inputs, [&](const ValueInfo &value) { return stages.hasInput(value.name); });
  bool hasLoss = llvm::any_of(impl.signature(Phase::Microbatch).results,
                              [](const ValueInfo &value) { return value.role == RoleKind::Loss; });
  std::vector<ScheduledAction *> last(plan.info.microbatches);
  for (ScheduledAction &entry : list.actions) {
    // What has been received is in use when a computation of it is.
    if (entry.kind != Kind::Compute && entry.kind != Kind::Send)
      continue;
    entry.readsInputs = readsInputs && !last[entry.microbatch];
    last[entry.microbatch] = &entry;
    if (entry.action.kind != ActionKind::Forward)
      continue;
    const PhaseFunction &forward = impl.phaseFunctions[entry.functions.front()];
    entry.endsForward =
        hasLoss ? llvm::any_of(forward.signature.results,
                               [](const ValueInfo &value) { return value.role == RoleKind::Loss; })
                : entry.action.stage + 1u == plan.program.numStages();
  }
  for (ScheduledAction *entry : last)
    if (entry)
      entry->isLast = true;
}

/// Whether other stages take a parameter that this one updates.
bool Compiler::isShared(int64_t stage) const {
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (part.phase == Phase::Update && part.stage == stage)
      for (const PhaseFunction &other : impl.phaseFunctions)
        if (other.stage != stage)
          for (const ValueInfo &value : other.signature.arguments)
            if (value.role == RoleKind::Parameter &&
                llvm::any_of(part.signature.results, [&](const ValueInfo &updated) {
                  return updated.role == RoleKind::Parameter && updated.name == value.name;
                }))
              return true;
  return false;
}

/// The steps at the list's end become a list of their own, so that the loss is known before them;
/// so do those of tied parameters, which other stages may still read. Calls that follow such a step
/// see its results.
void Compiler::partSteps() {
  auto isStep = [](const ScheduledAction &entry) {
    return entry.action.kind == ActionKind::OptimizerStep;
  };
  auto isCall = [](const ScheduledAction &entry) {
    return entry.action.kind == ActionKind::Custom;
  };
  size_t end = list.actions.size();
  for (size_t index = end; index > 0; --index) {
    const ScheduledAction &entry = list.actions[index - 1];
    if (isStep(entry))
      end = index - 1;
    else if (!isCall(entry))
      break;
  }
  std::vector<ScheduledAction> kept;
  for (auto [index, entry] : llvm::enumerate(list.actions)) {
    bool isLate = (isStep(entry) && (index >= end || isShared(entry.action.stage))) ||
                  (isCall(entry) && !list.steps.empty());
    (isLate ? list.steps : kept).push_back(std::move(entry));
  }
  list.actions = std::move(kept);
}

void Compiler::countValues() {
  for (const PhaseFunction &part : impl.phaseFunctions) {
    int64_t count = llvm::count_if(part.signature.results, [](const ValueInfo &value) {
      return value.role == RoleKind::Crossing || value.role == RoleKind::CrossingGradient;
    });
    list.maxValues = std::max(list.maxValues, count);
  }
}

llvm::Expected<ActionList> Compiler::run() {
  if (plan.info.ranks > 1 && !plan.hasTransfers)
    return makeError("schedule '{0}' has implied transfers, so only one rank can run it; "
                     "cleave-opt --insert-p2p makes them explicit",
                     plan.info.name);
  llvm::ArrayRef<Action> actions = plan.program.ranks[stages.place()];
  for (auto [position, action] : llvm::enumerate(actions)) {
    llvm::SmallVector<Action> members;
    plan.program.forEachLeaf(action, [&](Action member) { members.push_back(member); });
    // What runs without this rank's help starts first.
    llvm::stable_sort(members, [](Action a, Action b) {
      return !schedule::isCompute(a.kind) && schedule::isCompute(b.kind);
    });
    for (Action member : members)
      if (llvm::Error error = add(member, position))
        return error;
  }
  if (llvm::Error error = checkOnceAStep())
    return error;
  countValues();
  findCompletions();
  assignReceives();
  assignSends();
  markMicrobatches();
  partSteps();
  return std::move(list);
}

llvm::Expected<ActionList> ActionList::compile(const Program &program, const StageMap &stages,
                                               const UserCallbacks &callbacks) {
  return Compiler(program, stages, callbacks).run();
}
