// What arrives from a rank after that rank has used a send proves that the send is complete.
#include "lib/schedule/model/Completions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <optional>

using namespace cleave::schedule;

namespace {
/// Where another rank sends and uses each microbatch, by position in its list.
class PeerPositions {
public:
  PeerPositions(const Schedule &program, unsigned rank) {
    positions.reserve(unsigned(program.ranks[rank].size()));
    for (auto [position, action] : llvm::enumerate(program.ranks[rank]))
      program.forEachLeaf(action, [&, at = position](Action leaf) {
        if (isSend(leaf.kind) || leaf.kind == ActionKind::Forward || makesInputGradient(leaf.kind))
          positions.try_emplace(key(leaf), at);
      });
  }
  std::optional<size_t> find(Action action) const {
    auto found = positions.find(key(action));
    return found == positions.end() ? std::nullopt : std::optional<size_t>(found->second);
  }

private:
  static uint64_t key(Action action) {
    return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
  }
  llvm::DenseMap<uint64_t, size_t> positions;
};

/// A rank's actions with groups opened, transfers first.
std::vector<Action> listLeaves(const Schedule &program, unsigned rank) {
  std::vector<Action> leaves;
  for (Action action : program.ranks[rank]) {
    size_t begin = leaves.size();
    program.forEachLeaf(action, [&](Action leaf) { leaves.push_back(leaf); });
    std::stable_partition(leaves.begin() + begin, leaves.end(),
                          [](Action leaf) { return !isCompute(leaf.kind); });
  }
  return leaves;
}

/// The send that brings what a computation waits for, if another rank's does.
std::optional<Action> findSource(const Topology &topology, Action computation, unsigned rank) {
  unsigned stage = computation.stage;
  if (computation.kind == ActionKind::Forward && stage > 0)
    if (topology.rankOf(stage - 1) != rank)
      return Action(ActionKind::SendForward, stage - 1, computation.index);
  if (makesInputGradient(computation.kind) && stage + 1 < topology.numStages())
    if (topology.rankOf(stage + 1) != rank)
      return Action(ActionKind::SendBackward, stage + 1, computation.index);
  return std::nullopt;
}

/// The action with which the rank at the other end takes what is sent.
std::optional<size_t> findUse(const PeerPositions &peer, Action send) {
  if (send.kind == ActionKind::SendForward)
    return peer.find({ActionKind::Forward, send.stage + 1u, send.index});
  auto full = peer.find({ActionKind::Backward, send.stage - 1u, send.index});
  return full ? full : peer.find({ActionKind::BackwardInput, send.stage - 1u, send.index});
}
} // namespace

std::vector<Completion> cleave::schedule::findCompletions(const Schedule &program, unsigned rank) {
  llvm::DenseMap<unsigned, PeerPositions> peers;
  auto peerAt = [&](unsigned peer) -> const PeerPositions & {
    return peers.try_emplace(peer, program, peer).first->second;
  };
  struct Use {
    size_t position;
    Action send;
  };
  llvm::DenseMap<unsigned, std::vector<Use>> pending; // by peer
  std::vector<Completion> completions;
  for (Action leaf : listLeaves(program, rank)) {
    if (isSend(leaf.kind)) {
      unsigned peer = getPeer(program.topology, leaf);
      if (auto use = findUse(peerAt(peer), leaf))
        pending[peer].push_back({*use, leaf});
      continue;
    }
    std::optional<Action> source = findSource(program.topology, leaf, rank);
    if (!source)
      continue;
    unsigned peer = program.topology.rankOf(source->stage);
    auto sent = peerAt(peer).find(*source);
    if (!sent)
      continue;
    llvm::erase_if(pending[peer], [&](const Use &use) {
      if (use.position >= *sent)
        return false;
      completions.push_back({leaf, use.send});
      return true;
    });
  }
  return completions;
}
