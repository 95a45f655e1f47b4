// Which buffer each receive and each send uses: what a runtime allocates before it runs.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_SLOTS_H
#define CLEAVE_LIB_SCHEDULE_MODEL_SLOTS_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Schedule.h"

#include "llvm/Support/Error.h"

namespace cleave::schedule {

/// When the buffer of a received activation is free again: after the forward that reads it (where
/// the runtime keeps what the backward needs elsewhere), or after the stage's last backward action
/// of that microbatch (where the buffer itself is what the backward reads). A received gradient's
/// buffer is free after the backward that reads it.
enum class SlotRelease : uint8_t { AfterForward, AfterBackward };

/// Which receives of a rank share buffers. All of a rank's need to have one size for PerRank.
enum class SlotPool : uint8_t { PerRank, PerDirection, PerStageAndDirection };

struct SlotOptions {
  SlotRelease release = SlotRelease::AfterBackward;
  SlotPool pool = SlotPool::PerRank;
};

/// One receive or send and its buffer. Positions are in the rank's list; the buffer is in use from
/// `begin` to `end`, both included.
struct SlotUse {
  Action transfer;
  size_t begin, end;
  unsigned slot;
};

struct RankSlots {
  /// In the order of the list.
  std::vector<SlotUse> uses;
  /// How many buffers there are, over all pools; a slot number is below it.
  unsigned numSlots = 0;
  /// The buffers that any placement of receives needs with this order of compute actions and these
  /// pools: the most values that are in use at one compute action. numSlots never is below it.
  unsigned lowerBound = 0;
};

/// Assigns receive buffers, as few as the lifetimes allow: lifetimes are intervals, and intervals
/// are coloured greedily with as many colours as overlap somewhere, which no assignment can beat.
/// The program must pass verify. O(n log n).
std::vector<RankSlots> assignRecvSlots(const Schedule &program, const SlotOptions &options = {});
/// Those of one rank.
RankSlots assignRecvSlots(const Schedule &program, unsigned rank, const SlotOptions &options);

/// The buffers of one rank's sends.
struct SendSlots {
  /// In the order of the list, members of a group in theirs.
  std::vector<SlotUse> uses;
  unsigned numSlots = 0;
};

/// Assigns buffers to the sends of a rank: each is in use until the computation at which the send
/// is known to be complete (findCompletions), else to the end of the list. So a slot is free when
/// it is written again: slots make no rank wait, and cannot deadlock. The program must pass verify.
/// O(n) in the actions of `rank` and its neighbours, but for sends that stay in flight long.
SendSlots assignSendSlots(const Schedule &program, unsigned rank);

/// Which slot each microbatch in flight has in what a rank holds for a stage.
struct FrameSlots {
  /// By stage; 0 for stages of other ranks.
  std::vector<unsigned> numSlots;
  /// By stage and microbatch, from 0 in each stage; empty for stages of other ranks.
  std::vector<std::vector<unsigned>> slots;
};

/// Assigns to each microbatch on `rank` a slot in each of the rank's stages, from the stage's first
/// computation of it to the last, with as few slots as overlap somewhere: for what functions of one
/// microbatch hold for each other. The program must pass verify. O(n log n) in the rank's actions.
FrameSlots assignFrameSlots(const Schedule &program, unsigned rank);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_SLOTS_H
