// Which buffer each receive and each send uses: what a runtime allocates before it runs.
#pragma once

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Program.h"

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

/// One receive and its buffer. Positions are in the rank's list; the buffer is in use from `begin`
/// to `end`, both included.
struct SlotUse {
  Action recv;
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
std::vector<RankSlots> assignRecvSlots(const Program &program, const SlotOptions &options = {});
/// Those of one rank.
RankSlots assignRecvSlots(const Program &program, unsigned rank, const SlotOptions &options);

/// Which slot each microbatch under way has in what a rank holds for a stage.
struct FrameSlots {
  /// By stage; 0 for stages of other ranks.
  std::vector<unsigned> numSlots;
  /// By stage and microbatch, from 0 in each stage; empty for stages of other ranks.
  std::vector<std::vector<unsigned>> slots;
};

/// Assigns to each microbatch on `rank` a slot in each of the rank's stages, from the stage's first
/// computation of it to the last, with as few slots as overlap somewhere: for what functions of one
/// microbatch hold for each other. The program must pass verify. O(n log n) in the rank's actions.
FrameSlots assignFrameSlots(const Program &program, unsigned rank);

/// The smallest number of send slots per rank with which the program runs under the model (whose
/// own sendSlots is ignored): what may be incomplete at a time. 0 where it does not run at all, or
/// where nothing is sent.
unsigned minimalSendSlots(const Program &program, CommModel model);

//===----------------------------------------------------------------------===//
// The plan of all slots
//===----------------------------------------------------------------------===//

constexpr unsigned noTransfer = ~0u;

/// The slot of one send or receive. Sends and receives number theirs apart, from 0.
struct TransferSlot {
  Action transfer;
  unsigned slot;
  /// The transfer (by its number on this rank) that used the slot before; noTransfer if none did.
  /// Of a send: it must be complete before this one's value is written to the slot, and that is the
  /// only wait a runtime needs. Of a receive: whatever read its value stands earlier in the list,
  /// so that there is nothing to wait for.
  unsigned previous;
};

/// The slots of one rank. Its transfers are numbered from 0 in the order of its list, members of a
/// group in theirs.
struct RankSlotPlan {
  unsigned numRecvSlots = 0, numSendSlots = 0;
  std::vector<TransferSlot> transfers;
  /// The transfers of the action at `position`, in order; empty where it has none.
  llvm::ArrayRef<TransferSlot> of(size_t position) const {
    return llvm::ArrayRef(transfers).slice(firstOf[position],
                                           firstOf[position + 1] - firstOf[position]);
  }
  /// Per position the number of its first transfer, and then their count.
  std::vector<uint32_t> firstOf;
};

struct SlotPlan {
  std::vector<RankSlotPlan> ranks;
};

/// Gives every receive a slot (assignRecvSlots) and every send one of at most `model.sendSlots`; 0
/// asks for as few as the program runs with (minimalSendSlots), which may make ranks wait more than
/// they must.
///
/// Sends are coloured along one execution under the model: a send takes the slot that has been
/// free for longest, so that what it must wait for happened before it in that execution. The
/// program with these waits thus still runs to its end, whatever the order of events: an execution
/// without waits of its own shows that it can, and one order decides for all (see verify).
/// The program must pass verify. An error, with the deadlock, where the slots are too few.
/// O(n log n).
llvm::Expected<SlotPlan> planSlots(const Program &program, CommModel model,
                                   const SlotOptions &options = {});

} // namespace cleave::schedule
