// Sends and receives: one pass in the order of a simulated execution, then a second per rank that
// moves receives to where slots are free.
#include "lib/schedule/model/P2P.h"

#include "lib/schedule/model/ComputeOrder.h"
#include "lib/schedule/model/Verify.h"
#include "lib/support/Error.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

using namespace cleave::schedule;
using cleave::makeError;

namespace {
/// One receive of a rank, while its place is looked for. Positions count the rank's other actions.
struct PendingRecv {
  Action action;
  unsigned atSend;   // the position before which AtSend starts it
  unsigned consumer; // the position of the action that uses it
  unsigned deadline; // the position before which it must start
};

class Inserter {
public:
  Inserter(const Schedule &compute, const P2POptions &options)
      : compute(compute), options(options), topology(compute.topology), result(compute) {}

  llvm::Expected<Schedule> run() {
    auto order = simulateCompute(compute, options);
    if (!order)
      return order.takeError();
    insertAtSends(*order);
    order->clear();
    order->shrink_to_fit();
    if (options.model.receivesAreIndependent() && options.recvStart != RecvStart::AtSend) {
      unsigned slots = options.model.recvSlots ? options.model.recvSlots : countUsefulSlots();
      for (unsigned rank = 0; rank < compute.numRanks(); ++rank)
        if (llvm::Error error = placeReceives(rank, slots))
          return error;
    }
    if (options.model.sendSlots || options.model.recvSlots)
      if (auto deadlock = findDeadlock(result, options.model))
        return makeError("{0} send and {1} receive slots (0: unbounded) are too few: {2}",
                         options.model.sendSlots, options.model.recvSlots, deadlock->str());
    return std::move(result);
  }

private:
  /// The transfer that brings a leaf's result to another rank, as its send; nullopt if none.
  std::optional<Action> sendOf(Action leaf) const {
    unsigned stage = leaf.stage;
    if (leaf.kind == ActionKind::Forward && stage + 1 < compute.numStages() &&
        topology.rankOf(stage + 1) != topology.rankOf(stage))
      return Action(ActionKind::SendForward, stage, leaf.index);
    if (makesInputGradient(leaf.kind) && stage > 0 &&
        topology.rankOf(stage - 1) != topology.rankOf(stage))
      return Action(ActionKind::SendBackward, stage, leaf.index);
    return std::nullopt;
  }
  /// Both ends of a transfer enter their lists when the simulation makes the data: all lists are
  /// parts of one order of events, which is what rules a deadlock out.
  void insertAtSends(llvm::ArrayRef<uint16_t> order) {
    std::vector<size_t> next(compute.numRanks(), 0);
    for (unsigned rank = 0; rank < compute.numRanks(); ++rank) {
      size_t extra = 0;
      for (Action action : compute.ranks[rank])
        extra += 2 * (isCompute(action.kind) || action.kind == ActionKind::Compose);
      result.ranks[rank].clear();
      result.ranks[rank].reserve(compute.ranks[rank].size() + extra);
    }
    for (uint16_t rank : order) {
      Action action = compute.ranks[rank][next[rank]++];
      result.ranks[rank].push_back(action);
      compute.forEachLeaf(action, [&](Action leaf) {
        if (std::optional<Action> send = sendOf(leaf)) {
          result.ranks[rank].push_back(*send);
          result.ranks[getPeer(topology, *send)].push_back(getCounterpart(*send));
        }
      });
    }
  }

  /// A receive that starts no later than its send delays nothing. As many as are then in flight on
  /// any rank do for all: what is simulated is not quite what runs.
  unsigned countUsefulSlots() {
    unsigned slots = 0;
    for (unsigned rank = 0; rank < compute.numRanks(); ++rank) {
      std::vector<Action> others;
      std::vector<PendingRecv> receives;
      collect(rank, others, receives);
      slots = std::max(
          slots, peakInUse(receives, others.size(), [](const PendingRecv &r) { return r.atSend; }));
    }
    return slots;
  }

  /// Takes the receives out of a rank's list and puts each where the options want it.
  llvm::Error placeReceives(unsigned rank, unsigned slots) {
    std::vector<Action> others;
    std::vector<PendingRecv> receives;
    collect(rank, others, receives);
    setDeadlines(rank, receives);
    unsigned needed =
        peakInUse(receives, others.size(), [](const PendingRecv &r) { return r.deadline; });
    if (!options.model.recvSlots)
      slots = std::max(slots, needed);
    if (needed > slots)
      return makeError("rank {0} needs at least {1} receive slots, {2} are given", rank, needed,
                       slots);
    std::stable_sort(receives.begin(), receives.end(),
                     [](const auto &a, const auto &b) { return a.deadline < b.deadline; });
    std::vector<unsigned> freed(others.size() + 1, 0);
    for (const PendingRecv &receive : receives)
      ++freed[receive.consumer];
    std::vector<Action> &list = result.ranks[rank];
    list.clear();
    unsigned inUse = 0;
    size_t next = 0;
    bool late = options.recvStart == RecvStart::Late;
    for (unsigned position = 0; position < others.size(); ++position) {
      while (next < receives.size() && inUse < slots &&
             (!late || receives[next].deadline <= position)) {
        list.push_back(receives[next++].action);
        ++inUse;
      }
      list.push_back(others[position]);
      inUse -= freed[position];
    }
    return llvm::Error::success();
  }

  void collect(unsigned rank, std::vector<Action> &others, std::vector<PendingRecv> &receives) {
    auto indexOf = [&](bool forward, Action action) {
      return (size_t(forward) * compute.numStages() + action.stage) * compute.numMicrobatches +
             action.index;
    };
    // Every stage is on one rank: no entry has to be cleared in between.
    consumers.resize(indexOf(true, {ActionKind::Forward, compute.numStages() - 1}) +
                     compute.numMicrobatches);
    for (Action action : result.ranks[rank]) {
      if (isRecv(action.kind)) {
        receives.push_back({action, unsigned(others.size()), 0, 0});
        continue;
      }
      compute.forEachLeaf(action, [&](Action leaf) {
        if (leaf.kind == ActionKind::Forward || makesInputGradient(leaf.kind))
          consumers[indexOf(leaf.kind == ActionKind::Forward, leaf)] = unsigned(others.size());
      });
      others.push_back(action);
    }
    for (PendingRecv &receive : receives)
      receive.consumer = consumers[indexOf(isForwardP2P(receive.action.kind), receive.action)];
  }

  /// A receive must have started when its consumer runs, and, where matching is first-in-first-out,
  /// before every receive that its sender starts later.
  void setDeadlines(unsigned rank, std::vector<PendingRecv> &receives) {
    llvm::DenseMap<unsigned, unsigned> laterDeadline; // by channel
    bool fifo = options.model.matching == Matching::Fifo;
    bool byKind = options.model.streams == StreamSharing::Kind;
    for (PendingRecv &receive : llvm::reverse(receives)) {
      receive.deadline = receive.consumer;
      if (!fifo)
        continue;
      unsigned channel =
          2 * getPeer(topology, receive.action) + (byKind && isForwardP2P(receive.action.kind));
      auto [later, inserted] = laterDeadline.try_emplace(channel, receive.deadline);
      if (!inserted)
        receive.deadline = later->second = std::min(later->second, receive.deadline);
    }
  }

  /// The most receives that are started and not used yet, over all positions of the rank.
  template <typename Start>
  static unsigned peakInUse(llvm::ArrayRef<PendingRecv> receives, size_t positions, Start start) {
    // Before a position: what starts there, less what was used by the one before it.
    std::vector<int> change(positions + 2);
    for (const PendingRecv &receive : receives) {
      ++change[start(receive)];
      --change[receive.consumer + 1];
    }
    int inUse = 0, peak = 0;
    for (int here : change)
      peak = std::max(peak, inUse += here);
    return unsigned(peak);
  }

  const Schedule &compute;
  const P2POptions &options;
  const Topology &topology;
  Schedule result;
  std::vector<unsigned> consumers; // by direction, stage and microbatch: where a receive is used
};
} // namespace

llvm::Expected<Schedule> cleave::schedule::insertP2P(const Schedule &compute,
                                                     const P2POptions &options) {
  if (compute.hasP2P())
    return makeError("the schedule already has sends and receives");
  if (std::optional<Problem> problem = checkStructure(compute))
    return makeError("{0}", problem->str());
  return Inserter(compute, options).run();
}

Schedule cleave::schedule::removeP2P(const Schedule &program) {
  Schedule result;
  result.name = program.name;
  result.topology = program.topology;
  result.numMicrobatches = program.numMicrobatches;
  result.forwardOnly = program.forwardOnly;
  result.ranks.resize(program.ranks.size());
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (Action action : program.ranks[rank]) {
      switch (action.kind) {
      case ActionKind::Compose: {
        llvm::SmallVector<Action> members;
        for (Action member : program.groupOf(action))
          if (!isP2P(member.kind))
            members.push_back(member);
        if (members.size() == 1)
          result.ranks[rank].push_back(members.front());
        else if (!members.empty())
          result.ranks[rank].push_back(result.addGroup(members));
        break;
      }
      case ActionKind::Custom:
        result.ranks[rank].push_back(result.addCustom(program.customOf(action)));
        break;
      case ActionKind::Collective:
        result.ranks[rank].push_back(result.addCollective(program.collectiveOf(action)));
        break;
      default:
        if (!isP2P(action.kind))
          result.ranks[rank].push_back(action);
      }
    }
  return result;
}
