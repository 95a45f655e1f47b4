// Receive buffers and frames by lifetime; send slots; when sends are complete.
#include "lib/schedule/model/Slots.h"
#include "lib/schedule/model/Completions.h"
#include "test/unit/lib/schedule/TestUtils.h"

using namespace cleave::schedule;

namespace {
Schedule interleaved(RecvStart start, CommModel model = CommModel::nccl()) {
  P2POptions options;
  options.model = model;
  options.recvStart = start;
  return orFail(insertP2P(
      orFail(buildSchedule("interleaved-1f1b", {.ranks = 4, .microbatches = 16, .chunks = 4})),
      options));
}

std::pair<unsigned, unsigned> total(const Schedule &program, SlotOptions options) {
  unsigned slots = 0, bound = 0;
  for (const RankSlots &rank : assignRecvSlots(program, options)) {
    slots += rank.numSlots;
    bound += rank.lowerBound;
  }
  return {slots, bound};
}

/// No two uses of a slot overlap.
void expectSound(const Schedule &program, SlotOptions options) {
  for (const RankSlots &rank : assignRecvSlots(program, options)) {
    std::map<unsigned, size_t> freeFrom;
    for (const SlotUse &use : rank.uses) {
      EXPECT_LT(use.slot, rank.numSlots);
      EXPECT_GE(use.end, use.begin);
      EXPECT_GE(use.begin, freeFrom[use.slot]);
      freeFrom[use.slot] = use.end + 1;
    }
    EXPECT_GE(rank.numSlots, rank.lowerBound);
  }
}

// The figures of pytorch pull request 196465 for 4 ranks with 4 chunks: 112 slots with a pool per
// stage and direction, 67 with one per rank.
TEST(Slots, InterleavedNeedsFewerThanPublished) {
  Schedule late = interleaved(RecvStart::Late);
  auto [slots, bound] = total(late, {});
  std::printf("interleaved 1f1b, 4 ranks, 4 chunks: %u slots, no placement needs fewer than %u\n",
              slots, bound);
  EXPECT_LE(slots, 67u);
  EXPECT_EQ(slots, bound); // no placement of receives needs fewer in this order
  auto [perStage, perStageBound] =
      total(late, {SlotRelease::AfterBackward, SlotPool::PerStageAndDirection});
  EXPECT_LE(perStage, 112u);
  EXPECT_GT(perStage, slots);
  EXPECT_GE(perStage, perStageBound);
  // Receives that start earlier hold their slots longer; the bound is the order's alone.
  auto [atSend, atSendBound] = total(interleaved(RecvStart::AtSend), {});
  EXPECT_GT(atSend, bound);
  EXPECT_EQ(atSendBound, bound);
}

/// Frames of microbatches in flight: no two have one at a time, and there are as many as there are
/// microbatches in flight somewhere.
TEST(Slots, FramesAreTheMicrobatchesInFlight) {
  for (const char *name : {"gpipe", "1f1b", "interleaved-1f1b", "zbv", "dualpipev", "zb-h2"}) {
    Schedule program =
        orFail(insertP2P(orFail(buildSchedule(name, {.ranks = 4, .microbatches = 8}))));
    for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
      FrameSlots frames = assignFrameSlots(program, rank);
      struct Life {
        size_t begin, end;
      };
      std::map<std::pair<unsigned, unsigned>, Life> lives;
      for (size_t at = 0; at < program.ranks[rank].size(); ++at)
        program.forEachLeaf(program.ranks[rank][at], [&](Action leaf) {
          if (isCompute(leaf.kind))
            lives.try_emplace({leaf.stage, leaf.index}, Life{at, at}).first->second.end = at;
        });
      std::vector<unsigned> maximum(program.numStages());
      for (auto &[key, life] : lives) {
        unsigned together = 0;
        for (auto &[other, otherLife] : lives) {
          if (other.first != key.first || otherLife.begin > life.begin ||
              otherLife.end < life.begin)
            continue;
          ++together;
          if (other == key)
            continue;
          EXPECT_NE(frames.slots[key.first][key.second], frames.slots[key.first][other.second])
              << name << " rank " << rank;
        }
        maximum[key.first] = std::max(maximum[key.first], together);
      }
      EXPECT_EQ(frames.numSlots, maximum) << name << " rank " << rank;
    }
  }
  Schedule oneFOneB = orFail(buildSchedule("1f1b", {.ranks = 4, .microbatches = 8}));
  EXPECT_EQ(assignFrameSlots(oneFOneB, 0).numSlots, (std::vector<unsigned>{4, 0, 0, 0}));
  EXPECT_EQ(assignFrameSlots(oneFOneB, 3).slots[3], std::vector<unsigned>(8, 0));
}

/// A completion proves itself: the send has begun, and its receiver uses it before it sends what
/// the computation waits for.
TEST(Completions, AreProved) {
  for (const char *name : {"gpipe", "1f1b", "interleaved-1f1b", "zbv", "zb-h2"}) {
    Schedule program =
        orFail(insertP2P(orFail(buildSchedule(name, {.ranks = 3, .microbatches = 6}))));
    auto positionOf = [&](unsigned rank, Action wanted) {
      for (size_t at = 0; at < program.ranks[rank].size(); ++at) {
        bool isThere = false;
        program.forEachLeaf(program.ranks[rank][at],
                            [&](Action leaf) { isThere |= leaf == wanted; });
        if (isThere)
          return at;
      }
      return program.ranks[rank].size();
    };
    size_t found = 0;
    for (unsigned rank = 0; rank < program.numRanks(); ++rank)
      for (auto [computation, send] : findCompletions(program, rank)) {
        ++found;
        EXPECT_LE(positionOf(rank, send), positionOf(rank, computation)) << name;
        bool isForward = computation.kind == ActionKind::Forward;
        unsigned producer = isForward ? computation.stage - 1u : computation.stage + 1u;
        Action source(isForward ? ActionKind::SendForward : ActionKind::SendBackward, producer,
                      computation.index);
        unsigned peer = program.topology.rankOf(producer);
        ASSERT_EQ(peer, getPeer(program.topology, send));
        size_t use = program.ranks[peer].size();
        if (send.kind == ActionKind::SendForward)
          use = positionOf(peer, {ActionKind::Forward, send.stage + 1u, send.index});
        else
          for (ActionKind kind : {ActionKind::Backward, ActionKind::BackwardInput})
            use = std::min(use, positionOf(peer, {kind, send.stage - 1u, send.index}));
        EXPECT_LT(use, positionOf(peer, source)) << name;
      }
    EXPECT_GT(found, 0u) << name;
  }
}

/// No two sends share a slot before the first is known to be complete.
TEST(Slots, SendsKeepTheirSlotsUntilTheyAreComplete) {
  for (const char *name : {"gpipe", "1f1b", "interleaved-1f1b", "zbv", "zb-h2"}) {
    Schedule program =
        orFail(insertP2P(orFail(buildSchedule(name, {.ranks = 3, .microbatches = 6}))));
    size_t allSlots = 0, allSends = 0;
    for (unsigned rank = 0; rank < program.numRanks(); ++rank) {
      SendSlots slots = assignSendSlots(program, rank);
      size_t sends = 0;
      for (Action action : program.ranks[rank])
        program.forEachLeaf(action, [&](Action leaf) { sends += isSend(leaf.kind); });
      ASSERT_EQ(slots.uses.size(), sends) << name;
      allSlots += slots.numSlots;
      allSends += sends;
      std::vector<size_t> freeFrom(slots.numSlots, 0);
      for (const SlotUse &use : slots.uses) {
        ASSERT_LT(use.slot, slots.numSlots);
        EXPECT_GE(use.begin, freeFrom[use.slot]) << name << " rank " << rank;
        freeFrom[use.slot] = use.end;
      }
    }
    // GPipe sends everything forward before anything comes back.
    if (name != std::string("gpipe"))
      EXPECT_LT(allSlots, allSends) << name;
  }
}

TEST(Slots, AssignmentsAreSound) {
  for (const char *name : {"1f1b", "interleaved-1f1b", "zbv", "dualpipev", "zb-h2", "looped-bfs"})
    for (SlotPool pool :
         {SlotPool::PerRank, SlotPool::PerDirection, SlotPool::PerStageAndDirection})
      for (SlotRelease release : {SlotRelease::AfterForward, SlotRelease::AfterBackward}) {
        Schedule program =
            orFail(insertP2P(orFail(buildSchedule(name, {.ranks = 4, .microbatches = 8}))));
        expectSound(program, {release, pool});
      }
}

TEST(Slots, FewReceiveSlotsAreRespectedOrRefused) {
  Schedule compute = orFail(buildSchedule("1f1b", {.ranks = 4, .microbatches = 8}));
  for (unsigned slots : {1u, 2u, 3u, 8u}) {
    P2POptions options;
    options.model.recvSlots = slots;
    Schedule program = orFail(insertP2P(compute, options));
    EXPECT_EQ(verifyText(program, {.models = {options.model}, .buckets = {}}), "");
    for (const RankSlots &rank :
         assignRecvSlots(program, {SlotRelease::AfterForward, SlotPool::PerRank}))
      EXPECT_LE(rank.numSlots, slots);
  }
  // A group of a forward and a backward needs two values at once.
  Schedule grouped = orFail(buildSchedule("dualpipev", {.ranks = 2, .microbatches = 8}));
  P2POptions options;
  options.model.recvSlots = 1;
  auto refused = insertP2P(grouped, options);
  ASSERT_FALSE(bool(refused));
  std::string message = messageOf(refused.takeError());
  EXPECT_NE(message.find("receive slots, 1 are given"), std::string::npos) << message;
}
} // namespace
