//===- Completions.cpp - which sends are known to be complete, and when -------===//
//
// A send cannot be asked whether it is complete, only be waited for. But what arrives from a rank
// after that rank has used a send proves that the send is: then waiting costs nothing, and what was
// sent can be freed.
//
//===----------------------------------------------------------------------===//

#include "runtime/pipeline/ActionList.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::runtime;
using cleave::schedule::Action;
using cleave::schedule::ActionKind;
using Kind = ScheduledAction::Kind;

namespace {
/// Where another rank sends and uses each microbatch of a channel, by position in its list.
class PeerPositions {
public:
  PeerPositions(const schedule::Program &program, unsigned rank) {
    for (auto [position, action] : llvm::enumerate(program.ranks[rank]))
      program.forEachLeaf(
          action, [&, at = position](Action leaf) { positions.try_emplace(key(leaf), at); });
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
} // namespace

/// The action with which the rank at a channel's end takes what comes.
static std::optional<size_t> findUse(const PeerPositions &peer, const Channel &channel,
                                     unsigned microbatch) {
  unsigned stage = unsigned(channel.isForward ? channel.stage + 1 : channel.stage - 1);
  if (channel.isForward)
    return peer.find({ActionKind::Forward, stage, microbatch});
  auto full = peer.find({ActionKind::Backward, stage, microbatch});
  return full ? full : peer.find({ActionKind::BackwardInput, stage, microbatch});
}

void cleave::runtime::findCompletions(const schedule::Program &program, ActionList &list) {
  llvm::DenseMap<int, PeerPositions> peers;
  auto peerAt = [&](int place) -> const PeerPositions & {
    return peers.try_emplace(place, program, unsigned(place)).first->second;
  };
  struct Use {
    size_t position;
    uint32_t send;
  };
  llvm::DenseMap<int, std::vector<Use>> pending; // by peer
  for (ScheduledAction &entry : list.actions) {
    if (entry.channel == ScheduledAction::kNone || entry.kind == Kind::Receive)
      continue;
    const Channel &channel = list.channels[entry.channel];
    if (entry.kind == Kind::Send) {
      if (auto use = findUse(peerAt(channel.to), channel, entry.microbatch))
        pending[channel.to].push_back({*use, entry.send});
      continue;
    }
    ActionKind kind = channel.isForward ? ActionKind::SendForward : ActionKind::SendBackward;
    auto sent = peerAt(channel.from).find({kind, unsigned(channel.stage), entry.microbatch});
    if (!sent)
      continue;
    llvm::erase_if(pending[channel.from], [&](const Use &use) {
      if (use.position >= *sent)
        return false;
      entry.completes.push_back(use.send);
      return true;
    });
  }
}
