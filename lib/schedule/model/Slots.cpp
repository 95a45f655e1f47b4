// Interval colouring of receive buffers; send buffers until sends are known to be complete.
#include "lib/schedule/model/Slots.h"

#include "lib/schedule/model/Completions.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>
#include <queue>

using namespace cleave::schedule;

namespace {
/// What needs a slot, before it has one: its pool and, of a receive, where its value is first
/// needed.
struct Lifetime {
  SlotUse use;
  unsigned pool;
  size_t firstUse;
};

/// Lifetimes begin in the order of the list: each takes a slot of its pool that is free, or a new
/// one, which happens only where all slots of the pool overlap here. Slots are numbered over all
/// pools; their count.
unsigned color(std::vector<Lifetime> &lifetimes) {
  using Busy = std::pair<size_t, unsigned>; // end, slot
  struct Pool {
    std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
    std::priority_queue<unsigned, std::vector<unsigned>, std::greater<>> free;
  };
  llvm::DenseMap<unsigned, Pool> pools;
  unsigned numSlots = 0;
  for (Lifetime &life : lifetimes) {
    Pool &pool = pools[life.pool];
    while (!pool.busy.empty() && pool.busy.top().first < life.use.begin) {
      pool.free.push(pool.busy.top().second);
      pool.busy.pop();
    }
    if (pool.free.empty()) {
      life.use.slot = numSlots++;
    } else {
      life.use.slot = pool.free.top();
      pool.free.pop();
    }
    pool.busy.emplace(life.use.end, life.use.slot);
  }
  return numSlots;
}

class RankAssigner {
public:
  RankAssigner(const Schedule &program, unsigned rank, const SlotOptions &options)
      : program(program), list(program.ranks[rank]), options(options) {}

  RankSlots run() {
    collect();
    RankSlots result;
    result.lowerBound = overlapByPool([](const Lifetime &life) { return life.firstUse; });
    result.numSlots = color(lifetimes);
    for (Lifetime &life : lifetimes)
      result.uses.push_back(life.use);
    return result;
  }

private:
  static uint64_t keyOf(bool forward, unsigned stage, unsigned microbatch) {
    return uint64_t(forward) << 48 | uint64_t(stage) << 32 | microbatch;
  }

  void collect() {
    // The last place where each stage and microbatch needs its input, and its output's gradient.
    llvm::DenseMap<uint64_t, size_t> firstUse, lastUse;
    for (size_t at = 0; at < list.size(); ++at)
      program.forEachLeaf(list[at], [&](Action leaf) {
        if (!isCompute(leaf.kind))
          return;
        uint64_t input = keyOf(true, leaf.stage, leaf.index);
        if (leaf.kind == ActionKind::Forward)
          firstUse[input] = at;
        else if (makesInputGradient(leaf.kind))
          firstUse[keyOf(false, leaf.stage, leaf.index)] =
              lastUse[keyOf(false, leaf.stage, leaf.index)] = at;
        if (leaf.kind == ActionKind::Forward || options.release == SlotRelease::AfterBackward)
          lastUse[input] = at;
      });
    for (size_t at = 0; at < list.size(); ++at)
      program.forEachLeaf(list[at], [&](Action leaf) {
        if (!isRecv(leaf.kind))
          return;
        bool forward = isForwardP2P(leaf.kind);
        uint64_t key = keyOf(forward, leaf.stage, leaf.index);
        lifetimes.push_back(
            {{leaf, at, lastUse.lookup(key), 0}, poolOf(leaf), firstUse.lookup(key)});
      });
  }

  unsigned poolOf(Action recv) const {
    unsigned direction = isForwardP2P(recv.kind);
    switch (options.pool) {
    case SlotPool::PerRank:
      return 0;
    case SlotPool::PerDirection:
      return direction;
    case SlotPool::PerStageAndDirection:
      return 2 * recv.stage + direction;
    }
    return 0;
  }

  /// The sum over pools of the most intervals [start, end] that hold one position.
  unsigned overlapByPool(llvm::function_ref<size_t(const Lifetime &)> start) const {
    llvm::DenseMap<unsigned, std::vector<std::pair<size_t, int>>> changes;
    for (const Lifetime &life : lifetimes) {
      changes[life.pool].emplace_back(start(life), 1);
      changes[life.pool].emplace_back(life.use.end + 1, -1);
    }
    unsigned total = 0;
    for (auto &[pool, events] : changes) {
      llvm::sort(events);
      int inUse = 0, peak = 0;
      for (auto [position, change] : events)
        peak = std::max(peak, inUse += change);
      total += unsigned(peak);
    }
    return total;
  }

  const Schedule &program;
  const std::vector<Action> &list;
  const SlotOptions &options;
  std::vector<Lifetime> lifetimes;
};
} // namespace

std::vector<RankSlots> cleave::schedule::assignRecvSlots(const Schedule &program,
                                                         const SlotOptions &options) {
  std::vector<RankSlots> result;
  for (unsigned rank = 0; rank < program.numRanks(); ++rank)
    result.push_back(assignRecvSlots(program, rank, options));
  return result;
}

RankSlots cleave::schedule::assignRecvSlots(const Schedule &program, unsigned rank,
                                            const SlotOptions &options) {
  return RankAssigner(program, rank, options).run();
}

SendSlots cleave::schedule::assignSendSlots(const Schedule &program, unsigned rank) {
  auto keyOf = [](Action action) {
    return uint64_t(action.kind) << 48 | uint64_t(action.stage) << 32 | action.index;
  };
  llvm::DenseMap<uint64_t, llvm::SmallVector<Action, 1>> completed; // by computation
  for (auto [computation, send] : findCompletions(program, rank))
    completed[keyOf(computation)].push_back(send);
  SendSlots result;
  std::vector<unsigned> free;
  llvm::DenseMap<uint64_t, size_t> underWay; // by send: its use
  auto start = [&](Action send, size_t at) {
    if (free.empty())
      free.push_back(result.numSlots++);
    underWay[keyOf(send)] = result.uses.size();
    result.uses.push_back({send, at, program.ranks[rank].size(), free.back()});
    free.pop_back();
  };
  auto finish = [&](Action computation, size_t at) {
    for (Action send : completed.lookup(keyOf(computation))) {
      SlotUse &use = result.uses[underWay.lookup(keyOf(send))];
      use.end = at;
      free.push_back(use.slot);
    }
  };
  for (auto [at, action] : llvm::enumerate(program.ranks[rank])) {
    // Transfers of a group start before its computations.
    program.forEachLeaf(action, [&, at = at](Action leaf) {
      if (isSend(leaf.kind))
        start(leaf, at);
    });
    program.forEachLeaf(action, [&, at = at](Action leaf) {
      if (isCompute(leaf.kind))
        finish(leaf, at);
    });
  }
  return result;
}

FrameSlots cleave::schedule::assignFrameSlots(const Schedule &program, unsigned rank) {
  const std::vector<Action> &list = program.ranks[rank];
  std::vector<Lifetime> lifetimes;
  llvm::DenseMap<uint64_t, size_t> numbers; // of lifetimes, by stage and microbatch
  for (size_t at = 0; at < list.size(); ++at)
    program.forEachLeaf(list[at], [&](Action leaf) {
      if (!isCompute(leaf.kind))
        return;
      auto [found, isNew] =
          numbers.try_emplace(uint64_t(leaf.stage) << 32 | leaf.index, lifetimes.size());
      if (isNew)
        lifetimes.push_back({{leaf, at, at, 0}, leaf.stage, at});
      lifetimes[found->second].use.end = at;
    });
  color(lifetimes);

  FrameSlots result;
  result.numSlots.resize(program.numStages());
  result.slots.resize(program.numStages());
  std::vector<unsigned> inStage; // by number over all pools
  for (const Lifetime &life : lifetimes) {
    if (life.use.slot == inStage.size())
      inStage.push_back(result.numSlots[life.pool]++);
    std::vector<unsigned> &slots = result.slots[life.pool];
    slots.resize(program.numMicrobatches);
    slots[life.use.transfer.index] = inStage[life.use.slot];
  }
  return result;
}
