// Event-driven simulation of the compute actions; transfers take time, links are never busy.
#include "lib/schedule/model/ComputeOrder.h"

#include "lib/support/Error.h"

#include <cmath>
#include <queue>
#include <tuple>

using namespace cleave::schedule;
using cleave::makeError;

namespace {
class ComputeSimulation {
public:
  ComputeSimulation(const Schedule &program, const P2POptions &options)
      : program(program), options(options), microbatches(program.numMicrobatches),
        forwardDone(size_t(program.numStages()) * microbatches), inputDone(forwardDone.size()),
        inputHere(forwardDone.size()), gradientHere(forwardDone.size()),
        position(program.numRanks(), 0), blocked(program.numRanks(), false),
        arrived(program.collectiveTable().size()),
        transferTicks(uint64_t(std::llround(options.transferCost * kTicks))) {}

  llvm::Expected<std::vector<uint16_t>> run() {
    std::vector<uint16_t> order;
    order.reserve(program.numActions());
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      tryStart(rank);
    while (!events.empty()) {
      auto [time, isEnd, rank, index] = events.top();
      events.pop();
      now = time;
      if (!isEnd) {
        arrive(index, rank);
        continue;
      }
      order.push_back(static_cast<uint16_t>(rank));
      Action action = program.ranks[rank][position[rank]++];
      program.forEachLeaf(action, [&](Action leaf) { finish(leaf); });
      tryStart(rank);
    }
    if (order.size() != program.numActions())
      return makeError("the compute schedule cannot progress:{0}", describeBlocked());
    return order;
  }

private:
  static constexpr uint64_t kTicks = 1000; // of one unit of cost

  size_t indexOf(unsigned stage, unsigned microbatch) const {
    return size_t(stage) * microbatches + microbatch;
  }
  unsigned lastStage() const { return program.numStages() - 1; }

  unsigned costOf(Action leaf) const {
    switch (leaf.kind) {
    case ActionKind::Forward:
      return options.forwardCost;
    case ActionKind::Backward:
      return options.backwardCost;
    case ActionKind::BackwardInput:
      return options.inputCost;
    case ActionKind::BackwardWeight:
      return options.weightCost;
    default:
      return 0;
    }
  }

  /// The action whose result `leaf` still waits for, if any.
  std::optional<Action> missingInput(Action leaf) const {
    unsigned stage = leaf.stage, microbatch = leaf.index;
    switch (leaf.kind) {
    case ActionKind::Forward:
      if (stage > 0 && !inputHere[indexOf(stage, microbatch)])
        return Action(ActionKind::Forward, stage - 1, microbatch);
      return std::nullopt;
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      if (!forwardDone[indexOf(stage, microbatch)])
        return Action(ActionKind::Forward, stage, microbatch);
      if (stage < lastStage() && !gradientHere[indexOf(stage, microbatch)])
        return Action(ActionKind::BackwardInput, stage + 1, microbatch);
      return std::nullopt;
    case ActionKind::BackwardWeight:
      if (!inputDone[indexOf(stage, microbatch)])
        return Action(ActionKind::BackwardInput, stage, microbatch);
      return std::nullopt;
    default:
      return std::nullopt;
    }
  }

  void tryStart(unsigned rank) {
    blocked[rank] = false;
    if (position[rank] == program.ranks[rank].size())
      return;
    Action action = program.ranks[rank][position[rank]];
    unsigned cost = 0;
    bool ready = true;
    program.forEachLeaf(action, [&](Action leaf) {
      cost += costOf(leaf);
      ready &= !missingInput(leaf);
    });
    if (!ready) {
      blocked[rank] = true;
      return;
    }
    if (action.kind == ActionKind::Collective) {
      // All participants end together, when the last one has come.
      std::vector<unsigned> &waiting = arrived[action.index];
      waiting.push_back(rank);
      if (waiting.size() < program.collectiveOf(action).ranks.size())
        return;
      for (unsigned participant : waiting)
        events.push({now, true, participant, 0});
      waiting.clear();
      return;
    }
    events.push({now + cost * kTicks, true, rank, 0});
  }

  void finish(Action leaf) {
    if (leaf.kind == ActionKind::Forward) {
      forwardDone[indexOf(leaf.stage, leaf.index)] = true;
      if (leaf.stage < lastStage())
        hand(leaf.stage, leaf.stage + 1u, leaf.index, /*isForward=*/true);
    } else if (makesInputGradient(leaf.kind)) {
      inputDone[indexOf(leaf.stage, leaf.index)] = true;
      if (leaf.stage > 0)
        hand(leaf.stage, leaf.stage - 1u, leaf.index, /*isForward=*/false);
    }
  }
  /// What one stage has made is there for its neighbour, now or a transfer later.
  void hand(unsigned from, unsigned to, unsigned microbatch, bool isForward) {
    unsigned rank = program.topology.rankOf(to);
    size_t index = 2 * indexOf(to, microbatch) + isForward;
    if (transferTicks == 0 || rank == program.topology.rankOf(from))
      arrive(index, rank);
    else
      events.push({now + transferTicks, false, rank, index});
  }
  void arrive(size_t index, unsigned rank) {
    (index % 2 ? inputHere : gradientHere)[index / 2] = true;
    wake(rank);
  }
  void wake(unsigned rank) {
    if (blocked[rank])
      tryStart(rank);
  }

  std::string describeBlocked() const {
    std::string text;
    for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
      size_t at = position[rank];
      if (at == program.ranks[rank].size())
        continue;
      Action action = program.ranks[rank][at];
      text += "\n  rank " + std::to_string(rank) + ", position " + std::to_string(at) + ": " +
              program.str(action);
      std::optional<Action> missing;
      program.forEachLeaf(action, [&](Action leaf) {
        if (!missing)
          missing = missingInput(leaf);
      });
      if (missing)
        text += " waits for the " + describe(*missing);
      else
        text += " waits for the other ranks";
    }
    return text;
  }

  /// "input gradient of stage 2, microbatch 0 (B2.0 on rank 0, position 7)".
  std::string describe(Action missing) const {
    bool forward = missing.kind == ActionKind::Forward;
    unsigned rank = program.topology.rankOf(missing.stage);
    std::string text = forward ? "output" : "input gradient";
    text += " of stage " + std::to_string(missing.stage) + ", microbatch " +
            std::to_string(missing.index) + " (";
    const std::vector<Action> &list = program.ranks[rank];
    for (size_t at = 0; at < list.size(); ++at) {
      bool found = false;
      program.forEachLeaf(list[at], [&](Action leaf) {
        found |= leaf.stage == missing.stage && leaf.index == missing.index &&
                 (forward ? leaf.kind == ActionKind::Forward : makesInputGradient(leaf.kind));
      });
      if (found)
        return text + program.str(list[at]) + " on rank " + std::to_string(rank) + ", position " +
               std::to_string(at) + ")";
    }
    return text + "which rank " + std::to_string(rank) + " never makes)";
  }

  /// The end of a rank's action, or the arrival of what a stage has made, by direction, stage and
  /// microbatch.
  struct Event {
    uint64_t time;
    bool isEnd;
    unsigned rank;
    size_t index;
    bool operator>(const Event &other) const {
      return std::tie(time, isEnd, rank, index) >
             std::tie(other.time, other.isEnd, other.rank, other.index);
    }
  };
  const Schedule &program;
  const P2POptions &options;
  size_t microbatches;
  /// By stage and microbatch: what is made, and what has come to the stage's rank.
  std::vector<bool> forwardDone, inputDone, inputHere, gradientHere;
  std::vector<size_t> position;
  std::vector<bool> blocked;
  std::vector<std::vector<unsigned>> arrived;
  uint64_t transferTicks;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  uint64_t now = 0;
};
} // namespace

llvm::Expected<std::vector<uint16_t>> cleave::schedule::simulateCompute(const Schedule &program,
                                                                        const P2POptions &options) {
  return ComputeSimulation(program, options).run();
}
