// Matching of sends and receives by tag or by stream order.
#include "lib/schedule/simulate/Transfers.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <utility>

using namespace cleave::simulate;
using namespace cleave::schedule;

/// The send that an end (itself a send or a receive) belongs to.
static Action sendOf(Action end) {
  if (end.kind == ActionKind::RecvForward)
    return Action(ActionKind::SendForward, end.stage - 1u, end.index);
  if (end.kind == ActionKind::RecvBackward)
    return Action(ActionKind::SendBackward, end.stage + 1u, end.index);
  return end;
}
static Action otherEnd(Action end) {
  switch (end.kind) {
  case ActionKind::SendForward:
    return Action(ActionKind::RecvForward, end.stage + 1u, end.index);
  case ActionKind::SendBackward:
    return Action(ActionKind::RecvBackward, end.stage - 1u, end.index);
  default:
    return sendOf(end);
  }
}

Transfers::Transfers(const Schedule &program, const CostTable &costs, const CommModel &model)
    : program(program), costs(costs), model(model) {
  if (program.hasP2P() && model.matching == Matching::Tag)
    byTag.resize(2 * size_t(program.numStages()) * program.numMicrobatches);
}

size_t Transfers::tagOf(Action send) const {
  size_t direction = send.kind == ActionKind::SendForward ? 0 : program.numStages();
  return (direction + send.stage) * program.numMicrobatches + send.index;
}

double Transfers::costOf(Action send) const {
  const StageCost &cost = costs.of(send.stage);
  return send.kind == ActionKind::SendForward ? cost.sendForward : cost.sendBackward;
}

double Transfers::send(Action send, double now) {
  unsigned rank = program.topology.rankOf(send.stage), peer = getPeer(program.topology, send);
  double &free = linkFree[uint64_t(rank) << 32 | peer];
  return free = std::max(free, now) + costOf(send);
}

void Transfers::start(Action action, ActionRef here, double now,
                      llvm::function_ref<void(const Transfer &)> complete) {
  End end{action, here, now};
  if (model.matching == Matching::Tag)
    return startByTag(end, complete);
  uint64_t stream = streamOf(action, here.rank);
  streams[stream].queue.push_back(end);
  drain(stream, complete);
}

void Transfers::startByTag(const End &end, llvm::function_ref<void(const Transfer &)> complete) {
  Action send = sendOf(end.action);
  End &waiting = byTag[tagOf(send)];
  if (!waiting.isThere()) {
    waiting = end;
    return;
  }
  End other = std::exchange(waiting, End());
  const End &sender = isSend(end.action.kind) ? end : other;
  const End &receiver = isSend(end.action.kind) ? other : end;
  double begin = std::max(sender.time, receiver.time);
  complete({send, sender.where, receiver.where, begin, begin + costOf(send)});
}

uint64_t Transfers::streamOf(Action action, unsigned rank) const {
  uint64_t peer = getPeer(program.topology, action) + 1, variant = 0;
  switch (model.streams) {
  case StreamSharing::World:
    peer = 0;
    break;
  case StreamSharing::Peer:
    break;
  case StreamSharing::Direction:
    variant = isSend(action.kind);
    break;
  case StreamSharing::Kind:
    variant = isSend(action.kind) + 2 * isForwardP2P(action.kind);
    break;
  }
  return uint64_t(rank) << 34 | peer << 2 | variant;
}

/// Runs what heads its stream on both sides, and what that lets run, without recursion.
void Transfers::drain(uint64_t stream, llvm::function_ref<void(const Transfer &)> complete) {
  llvm::SmallVector<uint64_t> pending = {stream};
  while (!pending.empty()) {
    uint64_t current = pending.pop_back_val();
    Stream &mine = streams[current];
    if (mine.queue.empty())
      continue;
    End end = mine.queue.front();
    unsigned peer = getPeer(program.topology, end.action);
    uint64_t theirStream = streamOf(otherEnd(end.action), peer);
    Stream &theirs = streams[theirStream];
    Stream &same = streams[current]; // the line above may have moved it
    if (theirs.queue.empty() || !(theirs.queue.front().action == otherEnd(end.action)))
      continue;
    End other = theirs.queue.front();
    Action send = sendOf(end.action);
    double begin = std::max({end.time, other.time, same.free, theirs.free});
    double until = begin + costOf(send);
    same.free = theirs.free = until;
    same.queue.pop_front();
    theirs.queue.pop_front();
    bool first = isSend(end.action.kind);
    complete(
        {send, first ? end.where : other.where, first ? other.where : end.where, begin, until});
    pending.push_back(current);
    pending.push_back(theirStream);
  }
}

std::string Transfers::describeUnmatched() const {
  std::vector<const End *> open;
  for (const End &end : byTag)
    if (end.isThere())
      open.push_back(&end);
  for (const auto &entry : streams)
    for (const End &end : entry.second.queue)
      open.push_back(&end);
  if (open.empty())
    return "";
  const End *first = *std::min_element(open.begin(), open.end(), [](const End *a, const End *b) {
    return std::pair(a->where.rank, a->where.position) <
           std::pair(b->where.rank, b->where.position);
  });
  return llvm::formatv("{0} in all, the first {1} on rank {2}, position {3}", open.size(),
                       program.str(first->action), first->where.rank, first->where.position)
      .str();
}
