// The state of an execution without durations: what has started, what is complete, who waits.
// Used by findDeadlock; not part of the library's interface.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_PROGRESS_H
#define CLEAVE_LIB_SCHEDULE_MODEL_PROGRESS_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Schedule.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <deque>

namespace cleave::schedule {

/// One end of a transfer, or one rank's entry of a collective, that has started.
struct Side {
  Action action;
  unsigned rank;
  unsigned position;
  unsigned entry;
};

/// What a rank started at one position in its streams: one side, or a group's, which is atomic.
struct StreamEntry {
  unsigned rank = 0;
  unsigned position = 0;
  unsigned pendingSides = 0;
  /// Streams in which it is not yet at the head; it is active when 0.
  unsigned pendingHeads = 0;
  llvm::SmallVector<unsigned, 2> streams;
  llvm::SmallVector<Side, 2> sides;
};

class Progress {
public:
  Progress(const Schedule &program, const CommModel &model);

  /// Advances all ranks as far as they go. True if every rank ended.
  bool run();

  // The state afterwards.
  struct Rank {
    size_t position = 0;
    /// The communicating members of the action at `position` have started.
    bool started = false;
    unsigned incompleteSends = 0, incompleteRecvs = 0;
    unsigned recvSlotsInUse = 0;
    bool queued = false;
  };
  const Schedule &program;
  const CommModel model;
  std::vector<Rank> ranks;

  /// A transfer is numbered by the stage that receives it and its microbatch.
  size_t indexOf(bool forward, unsigned recvStage, unsigned microbatch) const {
    return (size_t(!forward) * program.numStages() + recvStage) * program.numMicrobatches +
           microbatch;
  }
  size_t indexOf(Action p2p) const;
  bool isRemote(unsigned stageA, unsigned stageB) const {
    return program.topology.rankOf(stageA) != program.topology.rankOf(stageB);
  }

  /// What a compute action may wait for.
  enum class Input : uint8_t {
    Ready,
    RemoteForward,
    RemoteGradient,
    OwnForward,
    OwnGradient,
    PreviousStage,
    NextStage
  };
  Input missingInput(Action leaf) const;
  /// The send or receive action that must complete first is blocked by a lack of slots.
  bool lacksSendSlot(unsigned rank, Action action) const;
  bool lacksRecvSlot(unsigned rank, Action action) const;

  bool hasArrived(size_t index) const { return arrived[index] != 0; }
  bool hasStarted(Action p2p) const { return starts(p2p) != 0; }
  uint16_t starts(Action p2p) const {
    return (isSend(p2p.kind) ? sendStarts : recvStarts)[indexOf(p2p)];
  }

  // Fifo only.
  std::vector<StreamEntry> entries;
  std::vector<std::deque<unsigned>> streams; // entries in order of start; the front is the head
  /// The first pair of sides of different transfers that met.
  std::optional<std::pair<Side, Side>> mismatch;

  /// The sides of an active entry that still wait for their counterpart (for messages: slow).
  llvm::SmallVector<Side, 2> pendingSides(unsigned entry) const;

  /// Collectives: sides of ranks that wait for the others.
  std::vector<std::vector<Side>> collectiveWaiting;

private:
  void advance(unsigned rank);
  bool step(unsigned rank);
  void start(unsigned rank, Action action);
  void startTagged(unsigned rank, Action leaf);
  void startEntry(unsigned rank, Action action);
  unsigned streamOf(unsigned rank, Action leaf);
  unsigned channelOf(unsigned rank, Action leaf);
  void reachHead(unsigned entry);
  void activateHeads();
  void activate(const Side &side);
  void completeSide(const Side &side);
  void completeTransfer(unsigned rank, Action leaf);
  void enterCollective(const Side &side);
  void finish(unsigned rank, Action leaf);
  void consume(unsigned rank, size_t index);
  void wake(unsigned rank);

  std::vector<bool> forwardDone, inputDone, consumed;
  std::vector<uint16_t> sendStarts, recvStarts, arrived;
  llvm::DenseMap<uint64_t, unsigned> streamIds, channelIds;
  struct Channel {
    std::deque<Side> sends, recvs;
  };
  std::vector<Channel> channels;
  std::vector<unsigned> freeEntries;
  std::vector<unsigned> heads; // entries that became active and whose sides must be
  std::vector<unsigned> runnable;
  std::vector<bool> collectivePassed;
};

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_PROGRESS_H
