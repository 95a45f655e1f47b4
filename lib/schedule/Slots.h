// Receive buffers by lifetime, send buffers by number.
#pragma once

#include "lib/schedule/CommModel.h"
#include "lib/schedule/Program.h"

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

/// The smallest number of send slots per rank with which the program runs under the model (whose
/// own sendSlots is ignored): what may be incomplete at a time. 0 where it does not run at all, or
/// where nothing is sent.
unsigned minimalSendSlots(const Program &program, CommModel model);

} // namespace cleave::schedule
