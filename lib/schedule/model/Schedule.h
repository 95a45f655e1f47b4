// A schedule as data: for each rank the ordered list of its actions.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_SCHEDULE_H
#define CLEAVE_LIB_SCHEDULE_MODEL_SCHEDULE_H

#include "lib/schedule/model/Action.h"
#include "lib/schedule/model/Topology.h"

#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace cleave::schedule {

/// A user's function: called with the stage and microbatch where they are given (else noIndex).
struct CustomAction {
  static constexpr unsigned noIndex = ~0u;
  std::string name;
  unsigned stage = noIndex;
  unsigned microbatch = noIndex;
  bool operator==(const CustomAction &) const = default;
};

/// An operation that all of `ranks` (ascending) enter together, such as the sum of a tied weight's
/// gradients. The k-th entry of a rank meets the k-th entry of the others.
struct CollectiveAction {
  std::string name;
  std::vector<unsigned> ranks;
  bool operator==(const CollectiveAction &) const = default;
};

/// Where an action stands.
struct Place {
  unsigned rank;
  size_t position; // in the rank's list, from 0
};

/// The model of execution, which every part of this library shares: a rank runs its list in order.
/// A send or receive only *starts* at its position; a compute action waits for the receive that
/// brings its input; a transfer is complete only when both sides have started (nothing is
/// buffered); a rank ends when all it started is complete. Transfers carry (stage, microbatch,
/// direction); stages form a chain (a value for a later stage is forwarded by those between).
/// Actions of one group (Compose) start together, and none sees another's result.
class Schedule {
public:
  std::string name;
  Topology topology;
  unsigned numMicrobatches = 0;
  /// No backward at all: inference or evaluation.
  bool forwardOnly = false;
  /// One list per rank.
  std::vector<std::vector<Action>> ranks;

  unsigned numRanks() const { return topology.numRanks(); }
  unsigned numStages() const { return topology.numStages(); }

  /// Adds a group and returns the action that stands for it. Groups do not nest.
  Action addGroup(llvm::ArrayRef<Action> actions);
  Action addCustom(CustomAction custom);
  Action addCollective(CollectiveAction collective);

  unsigned numGroups() const { return static_cast<unsigned>(groupEnds.size()); }
  /// The members of a Compose action.
  llvm::ArrayRef<Action> groupOf(Action compose) const {
    uint32_t begin = compose.index ? groupEnds[compose.index - 1] : 0;
    return llvm::ArrayRef(groupActions).slice(begin, groupEnds[compose.index] - begin);
  }
  const CustomAction &customOf(Action custom) const { return customs[custom.index]; }
  const CollectiveAction &collectiveOf(Action action) const { return collectives[action.index]; }
  llvm::ArrayRef<CustomAction> customTable() const { return customs; }
  llvm::ArrayRef<CollectiveAction> collectiveTable() const { return collectives; }

  /// The members of a group, or the action itself: calls `fn(Action)` for each.
  template <typename Fn> void forEachLeaf(const Action &action, Fn fn) const {
    if (action.kind != ActionKind::Compose)
      return fn(action);
    for (const Action &member : groupOf(action))
      fn(member);
  }

  /// True if a send or receive occurs anywhere.
  bool hasP2P() const;
  /// Number of actions of all ranks, a group counting as one.
  size_t numActions() const;

  /// The text form of one action: "F0.3", "recvB2.1", "{F0.3 B3.1}" (see docs/schedules.md).
  void print(llvm::raw_ostream &os, Action action) const;
  std::string str(Action action) const;

private:
  std::vector<Action> groupActions;
  std::vector<uint32_t> groupEnds;
  std::vector<CustomAction> customs;
  std::vector<CollectiveAction> collectives;
};

/// The rank at the other end of a send or receive, by the chain of stages. The action must be
/// within range: a send forward is not of the last stage, and so on.
unsigned getPeer(const Topology &topology, Action p2p);
/// The other end of a send or receive, within range as for getPeer.
Action getCounterpart(Action p2p);

/// True if both programs have the same lists, whatever the order of their side tables.
bool sameActions(const Schedule &a, const Schedule &b);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_SCHEDULE_H
