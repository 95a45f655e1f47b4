// Finds a deadlock and says why: follows what waits for what until it closes a cycle or ends at
// something that never comes.
#include "lib/schedule/model/Progress.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/Support/FormatVariadic.h"

using namespace cleave::schedule;

namespace {
/// Something that waits: a rank at the action of its position, or what it started there.
struct Waiter {
  bool started;
  unsigned rank;
  size_t position;
  bool operator==(const Waiter &) const = default;
};

/// What a waiter waits for, in words; `next` is what that waits for in turn.
struct Reason {
  std::string text;
  std::optional<Waiter> next;
};

class Explainer {
public:
  explicit Explainer(const Progress &state) : state(state), program(state.program) {}

  Problem explain() const {
    std::vector<std::pair<Waiter, std::string>> path;
    std::optional<Waiter> current = firstStuckRank();
    size_t cycleStart = 0;
    bool cycle = false;
    while (current && !cycle) {
      Reason reason = explain(*current);
      path.emplace_back(*current, std::move(reason.text));
      current = reason.next;
      for (size_t i = 0; current && i < path.size() && !cycle; ++i)
        if (path[i].first == *current) {
          cycle = true;
          cycleStart = i;
        }
    }
    Problem problem{ProblemKind::Deadlock, std::nullopt, "", {}};
    problem.message =
        cycle ? "deadlock: each action waits for the next, the last for the first"
              : "stuck: the last of these actions waits for something that never happens";
    for (size_t i = cycleStart; i < path.size(); ++i)
      problem.notes.emplace_back(Place{path[i].first.rank, path[i].first.position}, path[i].second);
    if (cycle)
      problem.place = problem.notes.front().first;
    else
      problem.place = problem.notes.back().first;
    return problem;
  }

private:
  Waiter atRank(unsigned rank) const { return {false, rank, state.ranks[rank].position}; }

  Waiter firstStuckRank() const {
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      if (state.ranks[rank].position < program.ranks[rank].size())
        return atRank(rank);
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      if (state.ranks[rank].incompleteSends || state.ranks[rank].incompleteRecvs)
        return atRank(rank);
    return atRank(0);
  }

  Reason explain(Waiter waiter) const {
    if (waiter.started)
      return state.model.matching == Matching::Tag ? explainTagged(waiter) : explainQueued(waiter);
    const std::vector<Action> &list = program.ranks[waiter.rank];
    if (waiter.position == list.size())
      return {"the end of the list waits for " + nameOf(oldestIncomplete(waiter.rank)),
              oldestIncomplete(waiter.rank)};
    Action action = list[waiter.position];
    std::string name = program.str(action);
    if (action.kind == ActionKind::Collective)
      return explainCollective(waiter, action);
    if (!state.ranks[waiter.rank].started) {
      if (state.lacksSendSlot(waiter.rank, action))
        return explainSendSlot(waiter, action);
      if (state.lacksRecvSlot(waiter.rank, action))
        return {llvm::formatv("{0} needs a receive slot; {1} of {2} are held until this rank runs "
                              "later actions",
                              name, state.ranks[waiter.rank].recvSlotsInUse, state.model.recvSlots),
                atRank(waiter.rank)};
    }
    Reason reason;
    program.forEachLeaf(action, [&](Action leaf) {
      if (reason.text.empty() && state.missingInput(leaf) != Progress::Input::Ready)
        reason = explainInput(waiter, leaf);
    });
    return reason;
  }

  Reason explainSendSlot(Waiter waiter, Action action) const {
    std::string name = program.str(action);
    if (state.ranks[waiter.rank].incompleteSends == 0)
      return {llvm::formatv("{0} needs more send slots than there are ({1})", name,
                            state.model.sendSlots),
              atRank(waiter.rank)};
    Waiter oldest = oldestIncomplete(waiter.rank, /*sendsOnly=*/true);
    return {llvm::formatv("{0} needs a send slot; all {1} are held, one by {2}", name,
                          state.model.sendSlots, nameOf(oldest)),
            oldest};
  }

  Reason explainInput(Waiter waiter, Action leaf) const {
    unsigned stage = leaf.stage, microbatch = leaf.index;
    std::string name = program.str(leaf);
    auto ownLater = [&](auto matches, llvm::StringRef what) -> Reason {
      for (size_t at = waiter.position; at < program.ranks[waiter.rank].size(); ++at)
        if (contains(waiter.rank, at, matches))
          return {llvm::formatv("{0} needs {1}, which comes only at position {2}: {3}", name, what,
                                at, program.str(program.ranks[waiter.rank][at])),
                  atRank(waiter.rank)};
      return {llvm::formatv("{0} needs {1}, which this rank never runs", name, what), {}};
    };
    auto compute = [&](bool forward, unsigned ofStage, llvm::StringRef what) {
      return ownLater(
          [=](Action other) {
            return other.stage == ofStage && other.index == microbatch &&
                   (forward ? other.kind == ActionKind::Forward : makesInputGradient(other.kind));
          },
          what);
    };
    switch (state.missingInput(leaf)) {
    case Progress::Input::OwnForward:
      return compute(true, stage, "its forward");
    case Progress::Input::OwnGradient:
      return compute(false, stage, "its input gradient");
    case Progress::Input::PreviousStage:
      return compute(true, stage - 1, "the previous stage's forward");
    case Progress::Input::NextStage:
      return compute(false, stage + 1, "the next stage's input gradient");
    default:
      break;
    }
    bool forward = leaf.kind == ActionKind::Forward;
    Action recv(forward ? ActionKind::RecvForward : ActionKind::RecvBackward, stage, microbatch);
    if (!state.hasStarted(recv))
      return ownLater([=](Action other) { return other == recv; }, "its receive");
    Waiter started{true, waiter.rank, 0};
    while (!contains(waiter.rank, started.position, [=](Action other) { return other == recv; }))
      ++started.position;
    return {name + " waits for " + nameOf(started), started};
  }

  Reason explainCollective(Waiter waiter, Action action) const {
    std::string name = program.str(action);
    if (state.model.matching == Matching::Fifo && state.model.streams == StreamSharing::World) {
      // It may be queued after transfers in the rank's stream.
      return explainQueued({true, waiter.rank, waiter.position});
    }
    return missingParticipant(action, name);
  }

  Reason missingParticipant(Action action, const std::string &name) const {
    for (unsigned participant : program.collectiveOf(action).ranks) {
      bool waits = false;
      for (const Side &side : state.collectiveWaiting[action.index])
        waits |= side.rank == participant;
      if (waits)
        continue;
      const std::vector<Action> &list = program.ranks[participant];
      for (size_t at = state.ranks[participant].position; at < list.size(); ++at)
        if (list[at] == action) {
          bool entered =
              at == state.ranks[participant].position && state.ranks[participant].started;
          return {llvm::formatv("{0} waits for rank {1} to enter it at position {2}", name,
                                participant, at),
                  entered ? Waiter{true, participant, at} : atRank(participant)};
        }
      return {
          llvm::formatv("{0} waits for rank {1}, which never enters it (again)", name, participant),
          {}};
    }
    return {name + " waits for the other ranks", {}};
  }

  /// What keeps a started transfer from completing, under tag matching.
  Reason explainTagged(Waiter waiter) const {
    Reason reason;
    program.forEachLeaf(program.ranks[waiter.rank][waiter.position], [&](Action leaf) {
      if (!reason.text.empty() || !isP2P(leaf.kind))
        return;
      unsigned nth = occurrence(waiter, leaf);
      Action counterpart = getCounterpart(leaf);
      if (state.starts(counterpart) >= nth)
        return;
      unsigned peer = getPeer(program.topology, leaf);
      reason = laterOnPeer(leaf, peer, [=](Action other) { return other == counterpart; });
    });
    return reason;
  }

  /// The same where transfers queue in streams.
  Reason explainQueued(Waiter waiter) const {
    std::string name = program.str(program.ranks[waiter.rank][waiter.position]);
    for (const std::deque<unsigned> &stream : state.streams)
      for (unsigned id : stream) {
        const StreamEntry &entry = state.entries[id];
        if (entry.rank != waiter.rank || entry.position != waiter.position)
          continue;
        if (id != stream.front()) {
          const StreamEntry &head = state.entries[stream.front()];
          Waiter next{true, head.rank, head.position};
          return {name + " is queued behind " + nameOf(next), next};
        }
        if (entry.pendingHeads == 0)
          return explainActive(name, id);
      }
    // A group stands at the head of this stream and is after others in a further one: found above.
    return {name + " waits", {}};
  }

  Reason explainActive(const std::string &name, unsigned id) const {
    llvm::SmallVector<Side, 2> pending = state.pendingSides(id);
    if (pending.empty())
      return {name + " waits", {}};
    Action leaf = pending.front().action;
    if (leaf.kind == ActionKind::Collective)
      return missingParticipant(leaf, name);
    unsigned rank = pending.front().rank, peer = getPeer(program.topology, leaf);
    auto meets = [&](Action other) { return meetsInChannel(leaf, rank, other); };
    // Started by the peer, but after something else there?
    for (const std::deque<unsigned> &stream : state.streams)
      for (unsigned other : stream) {
        const StreamEntry &entry = state.entries[other];
        if (entry.rank == peer && entry.pendingHeads > 0 && contains(peer, entry.position, meets)) {
          Waiter next{true, peer, entry.position};
          return {program.str(leaf) + " waits for " + nameOf(next), next};
        }
      }
    return laterOnPeer(leaf, peer, meets);
  }

  /// The transfer `other` of the peer would meet `leaf` of `rank`: same channel, other direction.
  bool meetsInChannel(Action leaf, unsigned rank, Action other) const {
    if (!isP2P(other.kind) || isSend(other.kind) == isSend(leaf.kind) ||
        getPeer(program.topology, other) != rank)
      return false;
    return state.model.streams != StreamSharing::Kind ||
           isForwardP2P(other.kind) == isForwardP2P(leaf.kind);
  }

  template <typename Fn> Reason laterOnPeer(Action leaf, unsigned peer, Fn matches) const {
    std::string name = program.str(leaf);
    const Progress::Rank &state = this->state.ranks[peer];
    size_t from = state.position + (state.started ? 1 : 0);
    for (size_t at = from; at < program.ranks[peer].size(); ++at)
      if (contains(peer, at, matches))
        return {llvm::formatv("{0} waits for {1} of rank {2}, position {3}", name,
                              program.str(program.ranks[peer][at]), peer, at),
                atRank(peer)};
    return {llvm::formatv("{0} waits for {1}, which rank {2} never starts", name,
                          program.str(getCounterpart(leaf)), peer),
            {}};
  }

  template <typename Fn> bool contains(unsigned rank, size_t position, Fn matches) const {
    bool found = false;
    program.forEachLeaf(program.ranks[rank][position],
                        [&](Action leaf) { found |= matches(leaf); });
    return found;
  }

  /// The how manieth start of its transfer the leaf at the waiter's position is.
  unsigned occurrence(Waiter waiter, Action leaf) const {
    unsigned count = 0;
    for (size_t at = 0; at <= waiter.position; ++at)
      program.forEachLeaf(program.ranks[waiter.rank][at],
                          [&](Action other) { count += other == leaf; });
    return count;
  }

  /// The earliest started transfer of the rank that is not complete.
  Waiter oldestIncomplete(unsigned rank, bool sendsOnly = false) const {
    auto wanted = [=](Action leaf) { return sendsOnly ? isSend(leaf.kind) : isP2P(leaf.kind); };
    const Progress::Rank &at = state.ranks[rank];
    Waiter oldest{true, rank, at.position};
    if (state.model.matching == Matching::Fifo) {
      for (const std::deque<unsigned> &stream : state.streams)
        for (unsigned id : stream)
          if (const StreamEntry &entry = state.entries[id];
              entry.rank == rank && contains(rank, entry.position, wanted))
            oldest.position = std::min<size_t>(oldest.position, entry.position);
      return oldest;
    }
    llvm::DenseMap<std::pair<unsigned, size_t>, unsigned> count;
    for (size_t position = 0; position < at.position + at.started; ++position) {
      bool incomplete = false;
      program.forEachLeaf(program.ranks[rank][position], [&](Action leaf) {
        if (!isP2P(leaf.kind))
          return;
        unsigned nth = ++count[{unsigned(leaf.kind), state.indexOf(leaf)}];
        incomplete |= wanted(leaf) && state.starts(getCounterpart(leaf)) < nth;
      });
      if (incomplete)
        return {true, rank, position};
    }
    return oldest;
  }

  std::string nameOf(Waiter waiter) const {
    return llvm::formatv("{0} of rank {1}, position {2}",
                         program.str(program.ranks[waiter.rank][waiter.position]), waiter.rank,
                         waiter.position);
  }

  const Progress &state;
  const Schedule &program;
};
} // namespace

std::optional<Problem> cleave::schedule::findDeadlock(const Schedule &program,
                                                      const CommModel &model) {
  Progress progress(program, model);
  if (progress.run())
    return std::nullopt;
  return Explainer(progress).explain();
}
