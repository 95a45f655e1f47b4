// Execution without durations, under tag or first-in-first-out matching.
#include "lib/schedule/model/Progress.h"

using namespace cleave::schedule;

Progress::Progress(const Schedule &program, const CommModel &model)
    : program(program), model(model), ranks(program.numRanks()),
      collectiveWaiting(program.collectiveTable().size()),
      collectivePassed(program.numRanks(), false) {
  size_t size = size_t(program.numStages()) * program.numMicrobatches;
  forwardDone.resize(size);
  inputDone.resize(size);
  arrived.resize(2 * size);
  sendStarts.resize(2 * size);
  recvStarts.resize(2 * size);
  if (model.recvSlots)
    consumed.resize(2 * size);
}

size_t Progress::indexOf(Action p2p) const {
  unsigned recvStage = p2p.stage;
  if (p2p.kind == ActionKind::SendForward)
    ++recvStage;
  else if (p2p.kind == ActionKind::SendBackward)
    --recvStage;
  return indexOf(isForwardP2P(p2p.kind), recvStage, p2p.index);
}

bool Progress::run() {
  for (unsigned rank = program.numRanks(); rank-- > 0;)
    wake(rank);
  while (!runnable.empty()) {
    unsigned rank = runnable.back();
    runnable.pop_back();
    ranks[rank].queued = false;
    advance(rank);
  }
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    if (ranks[rank].position < program.ranks[rank].size() || ranks[rank].incompleteSends ||
        ranks[rank].incompleteRecvs)
      return false;
  return true;
}

void Progress::wake(unsigned rank) {
  if (ranks[rank].queued)
    return;
  ranks[rank].queued = true;
  runnable.push_back(rank);
}

void Progress::advance(unsigned rank) {
  while (ranks[rank].position < program.ranks[rank].size() && step(rank)) {
    ++ranks[rank].position;
    ranks[rank].started = false;
  }
}

/// Runs the action at the rank's position; false if it must wait.
bool Progress::step(unsigned rank) {
  Rank &state = ranks[rank];
  Action action = program.ranks[rank][state.position];
  if (action.kind == ActionKind::Collective) {
    if (!state.started) {
      state.started = true;
      start(rank, action);
    }
    if (!collectivePassed[rank])
      return false;
    collectivePassed[rank] = false;
    return true;
  }
  if (!state.started) {
    if (lacksSendSlot(rank, action) || lacksRecvSlot(rank, action))
      return false;
    state.started = true;
    start(rank, action);
  }
  bool ready = true;
  program.forEachLeaf(action, [&](Action leaf) { ready &= missingInput(leaf) == Input::Ready; });
  if (!ready)
    return false;
  program.forEachLeaf(action, [&](Action leaf) { finish(rank, leaf); });
  return true;
}

bool Progress::lacksSendSlot(unsigned rank, Action action) const {
  if (!model.sendSlots)
    return false;
  unsigned sends = 0;
  program.forEachLeaf(action, [&](Action leaf) { sends += isSend(leaf.kind); });
  return sends && ranks[rank].incompleteSends + sends > model.sendSlots;
}

bool Progress::lacksRecvSlot(unsigned rank, Action action) const {
  if (!model.recvSlots)
    return false;
  unsigned recvs = 0;
  program.forEachLeaf(action, [&](Action leaf) { recvs += isRecv(leaf.kind); });
  return recvs && ranks[rank].recvSlotsInUse + recvs > model.recvSlots;
}

Progress::Input Progress::missingInput(Action leaf) const {
  unsigned stage = leaf.stage, microbatch = leaf.index;
  auto done = [&](const std::vector<bool> &what, unsigned ofStage) {
    return what[size_t(ofStage) * program.numMicrobatches + microbatch];
  };
  switch (leaf.kind) {
  case ActionKind::Forward:
    if (stage == 0)
      return Input::Ready;
    if (isRemote(stage, stage - 1))
      return hasArrived(indexOf(true, stage, microbatch)) ? Input::Ready : Input::RemoteForward;
    return done(forwardDone, stage - 1) ? Input::Ready : Input::PreviousStage;
  case ActionKind::Backward:
  case ActionKind::BackwardInput:
    if (!done(forwardDone, stage))
      return Input::OwnForward;
    if (stage + 1 == program.numStages())
      return Input::Ready;
    if (isRemote(stage, stage + 1))
      return hasArrived(indexOf(false, stage, microbatch)) ? Input::Ready : Input::RemoteGradient;
    return done(inputDone, stage + 1) ? Input::Ready : Input::NextStage;
  case ActionKind::BackwardWeight:
    return done(inputDone, stage) ? Input::Ready : Input::OwnGradient;
  default:
    return Input::Ready;
  }
}

void Progress::finish(unsigned rank, Action leaf) {
  size_t own = size_t(leaf.stage) * program.numMicrobatches + leaf.index;
  if (leaf.kind == ActionKind::Forward) {
    forwardDone[own] = true;
    if (leaf.stage > 0 && isRemote(leaf.stage, leaf.stage - 1))
      consume(rank, indexOf(true, leaf.stage, leaf.index));
  } else if (makesInputGradient(leaf.kind)) {
    inputDone[own] = true;
    if (leaf.stage + 1u < program.numStages() && isRemote(leaf.stage, leaf.stage + 1))
      consume(rank, indexOf(false, leaf.stage, leaf.index));
  }
}

/// The buffer of a received value is free once its consumer has run.
void Progress::consume(unsigned rank, size_t index) {
  if (!model.recvSlots || consumed[index])
    return;
  consumed[index] = true;
  --ranks[rank].recvSlotsInUse;
}

void Progress::start(unsigned rank, Action action) {
  bool communicates = action.kind == ActionKind::Collective;
  program.forEachLeaf(action, [&](Action leaf) {
    if (!isP2P(leaf.kind))
      return;
    communicates = true;
    ++(isSend(leaf.kind) ? ranks[rank].incompleteSends : ranks[rank].incompleteRecvs);
    ++(isSend(leaf.kind) ? sendStarts : recvStarts)[indexOf(leaf)];
    if (isRecv(leaf.kind))
      ++ranks[rank].recvSlotsInUse;
    if (model.matching == Matching::Tag)
      startTagged(rank, leaf);
  });
  if (!communicates)
    return;
  unsigned position = unsigned(ranks[rank].position);
  if (action.kind == ActionKind::Collective &&
      (model.matching == Matching::Tag || model.streams != StreamSharing::World))
    enterCollective({action, rank, position, ~0u});
  else if (model.matching == Matching::Fifo)
    startEntry(rank, action);
}

void Progress::startTagged(unsigned rank, Action leaf) {
  size_t index = indexOf(leaf);
  uint16_t mine = isSend(leaf.kind) ? sendStarts[index] : recvStarts[index];
  uint16_t theirs = isSend(leaf.kind) ? recvStarts[index] : sendStarts[index];
  if (theirs < mine)
    return;
  unsigned peer = getPeer(program.topology, leaf);
  unsigned sender = isSend(leaf.kind) ? rank : peer, receiver = isSend(leaf.kind) ? peer : rank;
  Action counterpart = getCounterpart(leaf);
  completeTransfer(sender, isSend(leaf.kind) ? leaf : counterpart);
  completeTransfer(receiver, isSend(leaf.kind) ? counterpart : leaf);
  wake(peer);
}

unsigned Progress::streamOf(unsigned rank, Action leaf) {
  uint64_t key = 0;
  if (leaf.kind != ActionKind::Collective && model.streams != StreamSharing::World) {
    key = 1 + getPeer(program.topology, leaf);
    if (model.streams >= StreamSharing::Direction)
      key = 2 * key + isSend(leaf.kind);
    if (model.streams == StreamSharing::Kind)
      key = 2 * key + isForwardP2P(leaf.kind);
  }
  auto [found, inserted] = streamIds.try_emplace(uint64_t(rank) << 32 | key, streams.size());
  if (inserted)
    streams.emplace_back();
  return found->second;
}

unsigned Progress::channelOf(unsigned rank, Action leaf) {
  unsigned peer = getPeer(program.topology, leaf);
  uint64_t sender = isSend(leaf.kind) ? rank : peer, receiver = isSend(leaf.kind) ? peer : rank;
  bool kind = model.streams == StreamSharing::Kind && isForwardP2P(leaf.kind);
  auto [found, inserted] =
      channelIds.try_emplace(sender << 33 | receiver << 1 | kind, channels.size());
  if (inserted)
    channels.emplace_back();
  return found->second;
}

void Progress::startEntry(unsigned rank, Action action) {
  unsigned id;
  if (freeEntries.empty()) {
    id = unsigned(entries.size());
    entries.emplace_back();
  } else {
    id = freeEntries.back();
    freeEntries.pop_back();
    entries[id] = StreamEntry();
  }
  StreamEntry &entry = entries[id];
  entry.rank = rank;
  entry.position = unsigned(ranks[rank].position);
  auto addSide = [&](Action leaf) {
    entry.sides.push_back({leaf, rank, entry.position, id});
    unsigned stream = streamOf(rank, leaf);
    if (!llvm::is_contained(entry.streams, stream))
      entry.streams.push_back(stream);
  };
  program.forEachLeaf(action, [&](Action leaf) {
    if (isP2P(leaf.kind) || leaf.kind == ActionKind::Collective)
      addSide(leaf);
  });
  entry.pendingSides = unsigned(entry.sides.size());
  entry.pendingHeads = unsigned(entry.streams.size());
  llvm::SmallVector<unsigned, 2> atHead;
  for (unsigned stream : entry.streams) {
    streams[stream].push_back(id);
    if (streams[stream].size() == 1)
      atHead.push_back(stream);
  }
  for (size_t i = 0; i < atHead.size(); ++i)
    reachHead(id);
  activateHeads();
}

/// The entry came to the head of one of its streams; at the head of all it becomes active.
void Progress::reachHead(unsigned id) {
  if (--entries[id].pendingHeads == 0)
    heads.push_back(id);
}

/// Activates entries until nothing changes. A queue, as chains of completions can be long.
void Progress::activateHeads() {
  while (!heads.empty()) {
    unsigned id = heads.back();
    heads.pop_back();
    // A completion may free the entry or move the vector: work on a copy.
    llvm::SmallVector<Side, 2> sides = entries[id].sides;
    for (const Side &side : sides)
      activate(side);
  }
}

void Progress::activate(const Side &side) {
  if (side.action.kind == ActionKind::Collective)
    return enterCollective(side);
  unsigned channel = channelOf(side.rank, side.action);
  auto &mine = isSend(side.action.kind) ? channels[channel].sends : channels[channel].recvs;
  auto &theirs = isSend(side.action.kind) ? channels[channel].recvs : channels[channel].sends;
  if (theirs.empty()) {
    mine.push_back(side);
    return;
  }
  Side other = theirs.front();
  theirs.pop_front();
  const Side &send = isSend(side.action.kind) ? side : other;
  const Side &recv = isSend(side.action.kind) ? other : side;
  if (!mismatch && indexOf(send.action) != indexOf(recv.action))
    mismatch.emplace(send, recv);
  Side sendCopy = send, recvCopy = recv;
  completeSide(sendCopy);
  completeSide(recvCopy);
}

/// One end of a transfer is complete: its rank may reuse the sent buffer, or use what it received.
void Progress::completeTransfer(unsigned rank, Action leaf) {
  if (isRecv(leaf.kind)) {
    --ranks[rank].incompleteRecvs;
    ++arrived[indexOf(leaf)];
    return;
  }
  --ranks[rank].incompleteSends;
}

/// A group is complete as a whole, as a device runs it.
void Progress::completeSide(const Side &side) {
  StreamEntry &entry = entries[side.entry];
  if (--entry.pendingSides)
    return;
  for (const Side &member : entry.sides)
    if (isP2P(member.action.kind))
      completeTransfer(member.rank, member.action);
  wake(entry.rank);
  llvm::SmallVector<unsigned, 2> left = entry.streams;
  freeEntries.push_back(side.entry);
  for (unsigned stream : left) {
    streams[stream].pop_front();
    if (!streams[stream].empty())
      reachHead(streams[stream].front());
  }
}

void Progress::enterCollective(const Side &side) {
  std::vector<Side> &waiting = collectiveWaiting[side.action.index];
  waiting.push_back(side);
  if (waiting.size() < program.collectiveOf(side.action).ranks.size())
    return;
  std::vector<Side> all;
  all.swap(waiting);
  for (const Side &entered : all) {
    collectivePassed[entered.rank] = true;
    wake(entered.rank);
    if (entered.entry != ~0u)
      completeSide(entered);
  }
}

llvm::SmallVector<Side, 2> Progress::pendingSides(unsigned entry) const {
  llvm::SmallVector<Side, 2> pending;
  auto add = [&](const auto &sides) {
    for (const Side &side : sides)
      if (side.entry == entry)
        pending.push_back(side);
  };
  for (const Channel &channel : channels) {
    add(channel.sends);
    add(channel.recvs);
  }
  for (const std::vector<Side> &waiting : collectiveWaiting)
    add(waiting);
  return pending;
}
