// The simulation. Since every rank and every stream serves its actions in a fixed order, the times
// are the least solution of "start = latest of what it needs": ranks advance until something is
// missing and go on when it is made. No event queue is needed, and every action is looked at once
// plus once for each time it had to wait.
#include "lib/schedule/simulate/Simulator.h"

#include "lib/schedule/simulate/Transfers.h"
#include "lib/support/Error.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>

using namespace cleave::simulate;
using namespace cleave::schedule;
using cleave::makeError;

namespace {
class Simulation {
public:
  Simulation(const Schedule &program, const CostTable &costs, const SimulationOptions &options)
      : program(program), costs(costs), microbatches(program.numMicrobatches),
        explicitP2P(program.hasP2P()), transfers(program, costs, options.model),
        outputs(size_t(program.numStages()) * microbatches), arrivals(outputs.size()),
        gradients(outputs.size()), gradientArrivals(outputs.size()), state(program.numRanks()),
        unshards(program.numStages()), reductions(program.numStages()),
        collectives(program.collectiveTable().size()) {}

  llvm::Expected<Timeline> run() {
    unsigned ranks = program.numRanks();
    timeline.ranks.resize(ranks);
    timeline.rankEnd.resize(ranks);
    timeline.exposedCommunication.resize(ranks);
    timeline.peakMemory.resize(ranks);
    for (unsigned rank = ranks; rank-- > 0;) {
      timeline.ranks[rank].resize(program.ranks[rank].size());
      ready.push_back(rank);
    }
    while (!ready.empty()) {
      unsigned rank = ready.back();
      ready.pop_back();
      advance(rank);
    }
    if (llvm::Error error = checkFinished())
      return error;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      timeline.rankEnd[rank] = std::max(state[rank].clock, state[rank].lastTransfer);
      memoryCurve(program, costs, rank, &timeline.peakMemory[rank]);
    }
    return std::move(timeline);
  }

private:
  /// A value of one stage and microbatch: when it can be used, and who made it.
  struct Value {
    double time = -1;
    ActionRef producer;
    double made = 0; // when the producer ended (earlier than `time` if it was transferred)
    bool exists() const { return time >= 0; }
  };
  struct RankState {
    size_t position = 0;
    double clock = 0;
    double lastTransfer = 0;
    double collectiveStream = 0; // unshards and reductions follow each other
    bool waiting = false;
    bool entered = false; // the collective at `position` knows of this rank
  };
  struct Meeting {
    llvm::SmallVector<std::pair<unsigned, double>> arrived;
  };

  size_t indexOf(Action leaf) const { return size_t(leaf.stage) * microbatches + leaf.index; }
  bool isLocal(unsigned stage, unsigned other) const {
    return program.topology.rankOf(stage) == program.topology.rankOf(other);
  }

  void advance(unsigned rank) {
    RankState &self = state[rank];
    const std::vector<Action> &list = program.ranks[rank];
    self.waiting = false;
    while (self.position < list.size()) {
      if (!execute(rank, list[self.position])) {
        self.waiting = true;
        return;
      }
      self.entered = false;
      ++self.position;
    }
  }
  void wake(unsigned rank) {
    if (state[rank].waiting) {
      state[rank].waiting = false;
      ready.push_back(rank);
    }
  }

  /// Runs the action at the rank's position; false if something it needs has not been made yet.
  bool execute(unsigned rank, Action action) {
    switch (action.kind) {
    case ActionKind::Compose:
      return executeCompute(rank, action, program.groupOf(action));
    case ActionKind::Collective:
      return enterCollective(rank, action);
    case ActionKind::Custom: {
      auto cost = costs.named.find(program.customOf(action).name);
      finish(rank, state[rank].clock, cost == costs.named.end() ? 0 : cost->second, {});
      return true;
    }
    default:
      break;
    }
    if (!isP2P(action.kind))
      return executeCompute(rank, action, action);
    // An end of a transfer stands after what makes its value: nothing is waited for.
    startOrPublish(rank, action, {rank, uint32_t(state[rank].position)}, state[rank].clock);
    return true;
  }

  /// What a compute leaf needs, as a value that exists or not; null if nothing.
  const Value *inputOf(Action leaf, const Value *&second) const {
    switch (leaf.kind) {
    case ActionKind::Forward:
      return leaf.stage == 0 ? nullptr : &arrivals[indexOf(leaf)];
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      second = &outputs[indexOf(leaf)];
      return leaf.stage + 1u == program.numStages() ? nullptr : &gradientArrivals[indexOf(leaf)];
    case ActionKind::BackwardWeight:
      return &gradients[indexOf(leaf)];
    default:
      return nullptr;
    }
  }

  bool executeCompute(unsigned rank, Action action, llvm::ArrayRef<Action> leaves) {
    RankState &self = state[rank];
    double start = self.clock, sum = 0, largest = 0;
    const Value *latest = nullptr;
    auto need = [&](const Value *value) {
      if (!value)
        return true;
      if (!value->exists())
        return false;
      if (value->time > start) {
        start = value->time;
        latest = value;
      }
      return true;
    };
    for (Action leaf : leaves) {
      const Value *second = nullptr;
      if (!need(inputOf(leaf, second)) || !need(second))
        return false;
      if (isCompute(leaf.kind) &&
          !need(unshards[leaf.stage].exists() ? &unshards[leaf.stage] : nullptr))
        return false;
      if (leaf.kind == ActionKind::OptimizerStep && reductions[leaf.stage].exists())
        need(&reductions[leaf.stage]);
      double cost = costOf(leaf);
      sum += cost;
      largest = std::max(largest, cost);
    }
    if (latest)
      timeline.exposedCommunication[rank] += start - std::max(self.clock, latest->made);
    double duration = largest + (1 - costs.overlap) * (sum - largest);
    ActionRef here{rank, uint32_t(self.position)};
    bool computes = false;
    for (Action leaf : leaves)
      computes |= isCompute(leaf.kind) || leaf.kind == ActionKind::OptimizerStep;
    if (computes || action.kind == ActionKind::Reshard)
      finish(rank, start, duration, latest ? latest->producer : ActionRef());
    // What a group starts, it starts when the group does, concurrently with its compute actions.
    for (Action leaf : leaves)
      startOrPublish(rank, leaf, here, computes ? start : self.clock);
    return true;
  }

  double costOf(Action leaf) const {
    if (!hasStage(leaf.kind))
      return 0;
    const StageCost &cost = costs.of(leaf.stage);
    switch (leaf.kind) {
    case ActionKind::Forward:
      return cost.forward;
    case ActionKind::Backward:
      return cost.fullBackward();
    case ActionKind::BackwardInput:
      return cost.input;
    case ActionKind::BackwardWeight:
      return cost.weight;
    case ActionKind::OptimizerStep:
      return cost.optimizer;
    default:
      return 0;
    }
  }

  /// Records the action at the rank's position on the compute stream.
  void finish(unsigned rank, double start, double duration, ActionRef waitedFor) {
    RankState &self = state[rank];
    timeline.ranks[rank][self.position] = {start, start + duration, waitedFor};
    self.clock = start + duration;
  }

  /// The results of a compute leaf (at the rank's clock), or the start of a communication leaf.
  void startOrPublish(unsigned rank, Action leaf, ActionRef here, double start) {
    RankState &self = state[rank];
    switch (leaf.kind) {
    case ActionKind::Forward:
      outputs[indexOf(leaf)] = {self.clock, here, self.clock};
      if (leaf.stage + 1u < program.numStages())
        hand(leaf, Action(ActionKind::SendForward, leaf.stage, leaf.index), here);
      return;
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      gradients[indexOf(leaf)] = {self.clock, here, self.clock};
      if (leaf.stage > 0)
        hand(leaf, Action(ActionKind::SendBackward, leaf.stage, leaf.index), here);
      return;
    case ActionKind::Unshard:
    case ActionKind::ReduceGrad: {
      bool unshard = leaf.kind == ActionKind::Unshard;
      double begin = std::max(start, self.collectiveStream);
      double end = begin + (unshard ? costs.of(leaf.stage).unshard : costs.of(leaf.stage).reduce);
      self.collectiveStream = end;
      self.lastTransfer = std::max(self.lastTransfer, end);
      (unshard ? unshards : reductions)[leaf.stage] = {end, here, begin};
      timeline.ranks[rank][self.position] = {begin, end, {}};
      return;
    }
    case ActionKind::Reshard:
      unshards[leaf.stage] = Value();
      return;
    default:
      if (isP2P(leaf.kind))
        transfers.start(leaf, here, start, [&](const Transfer &transfer) { complete(transfer); });
    }
  }

  /// Where transfers are not in the program: the next stage has the data now, or after a transfer.
  void hand(Action leaf, Action send, ActionRef here) {
    unsigned next = send.kind == ActionKind::SendForward ? leaf.stage + 1 : leaf.stage - 1;
    double now = state[here.rank].clock;
    if (isLocal(leaf.stage, next))
      return deliver(send, now, now, here);
    if (!explicitP2P)
      deliver(send, transfers.send(send, now), now, here);
  }
  void deliver(Action send, double time, double made, ActionRef producer) {
    bool forward = send.kind == ActionKind::SendForward;
    unsigned next = forward ? send.stage + 1 : send.stage - 1;
    (forward ? arrivals
             : gradientArrivals)[size_t(next) * microbatches + send.index] = {time, producer, made};
    wake(program.topology.rankOf(next));
  }

  /// Both ends of an explicit transfer have met.
  void complete(const Transfer &transfer) {
    ActionRef sender = transfer.sender, receiver = transfer.receiver;
    for (ActionRef end : {sender, receiver}) {
      ActionRef other = end.rank == sender.rank ? receiver : sender;
      Action at = program.ranks[end.rank][end.position];
      if (isP2P(at.kind))
        timeline.ranks[end.rank][end.position] = {transfer.begin, transfer.end, other};
      state[end.rank].lastTransfer = std::max(state[end.rank].lastTransfer, transfer.end);
    }
    deliver(transfer.send, transfer.end, transfer.begin, sender);
  }

  bool enterCollective(unsigned rank, Action action) {
    RankState &self = state[rank];
    const CollectiveAction &collective = program.collectiveOf(action);
    Meeting &meeting = collectives[action.index];
    if (!self.entered) {
      meeting.arrived.emplace_back(rank, self.clock);
      self.entered = true;
    }
    if (meeting.arrived.size() < collective.ranks.size())
      return false;
    auto last = std::max_element(meeting.arrived.begin(), meeting.arrived.end(),
                                 [](const auto &a, const auto &b) { return a.second < b.second; });
    auto cost = costs.named.find(collective.name);
    double duration = cost == costs.named.end() ? 0 : cost->second, start = last->second;
    ActionRef cause{last->first, uint32_t(state[last->first].position)};
    auto participants = std::move(meeting.arrived);
    meeting.arrived.clear();
    for (auto [participant, time] : participants) {
      finish(participant, start, duration, time < start ? cause : ActionRef());
      if (participant == rank)
        continue;
      state[participant].entered = false;
      ++state[participant].position;
      wake(participant);
    }
    return true;
  }

  llvm::Error checkFinished() const {
    std::string text;
    unsigned blocked = 0;
    for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
      size_t position = state[rank].position;
      if (position == program.ranks[rank].size() || ++blocked > 4)
        continue;
      text += llvm::formatv("\n  rank {0}, position {1}: {2}", rank, position,
                            program.str(program.ranks[rank][position]))
                  .str();
    }
    if (blocked > 4)
      text += llvm::formatv("\n  and {0} more ranks", blocked - 4).str();
    if (blocked)
      return makeError("the schedule cannot complete; blocked:{0}", text);
    if (std::string open = transfers.describeUnmatched(); !open.empty())
      return makeError("the schedule ends with unmatched transfers: {0}", open);
    return llvm::Error::success();
  }

  const Schedule &program;
  const CostTable &costs;
  size_t microbatches;
  bool explicitP2P;
  Transfers transfers;
  /// By stage and microbatch: results where they are made, and where they are used.
  std::vector<Value> outputs, arrivals, gradients, gradientArrivals;
  std::vector<RankState> state;
  std::vector<Value> unshards, reductions;
  std::vector<Meeting> collectives;
  std::vector<unsigned> ready;
  Timeline timeline;
};
} // namespace

llvm::Expected<Timeline> cleave::simulate::simulate(const Schedule &program, const CostTable &costs,
                                                    const SimulationOptions &options) {
  if (llvm::Error error = costs.checkFor(program.numStages()))
    return error;
  if (llvm::Error error = costs.checkHalves(program))
    return error;
  return Simulation(program, costs, options).run();
}

std::vector<double> cleave::simulate::memoryCurve(const Schedule &program, const CostTable &costs,
                                                  unsigned rank, double *peak) {
  std::vector<double> curve;
  curve.reserve(program.ranks[rank].size());
  double memory = 0, largest = 0;
  for (Action action : program.ranks[rank]) {
    // All of a group start together: what its forwards add is there before anything is released.
    program.forEachLeaf(action, [&](Action leaf) {
      if (leaf.kind == ActionKind::Forward && !program.forwardOnly)
        memory += costs.of(leaf.stage).forwardMemory;
    });
    largest = std::max(largest, memory);
    program.forEachLeaf(action, [&](Action leaf) {
      if (makesInputGradient(leaf.kind))
        memory -= costs.of(leaf.stage).inputMemory;
      if (leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardWeight)
        memory -= costs.of(leaf.stage).weightMemory;
    });
    // An input gradient may keep more for the weight gradient than it releases.
    largest = std::max(largest, memory);
    curve.push_back(memory);
  }
  if (peak)
    *peak = largest;
  return curve;
}
