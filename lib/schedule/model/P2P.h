// Adds sends and receives to a compute-only program.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_P2P_H
#define CLEAVE_LIB_SCHEDULE_MODEL_P2P_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Schedule.h"

namespace cleave::schedule {

/// Where a receive starts in its rank's list.
enum class RecvStart : uint8_t {
  Early,  // as early as free slots and the order of matching allow
  AtSend, // where the simulation makes the data
  Late,   // just before it is needed
};

struct P2POptions {
  /// The default keeps the order that both NCCL (per direction) and Gloo can match.
  CommModel model = CommModel::nccl();
  /// Where receives share a stream with sends (StreamSharing World and Peer), only AtSend keeps
  /// the order of all transfers equal on all ranks: it is used there whatever this says.
  RecvStart recvStart = RecvStart::Early;
  /// Relative durations for the simulation that decides the order of events.
  unsigned forwardCost = 1, backwardCost = 2, inputCost = 1, weightCost = 1;
  /// The same of a transfer.
  double transferCost = 0.1;
};

/// Returns the program with a send after every compute action whose result another rank needs, and
/// the receive in that rank's list; between stages of one rank nothing is added. Without
/// `model.recvSlots`, Early uses as many slots on each rank as AtSend would on any.
///
/// The transfers' order is that of a valid execution, so that the result is free of deadlock with
/// unbounded slots under every model; with bounded send slots it is checked. Time is
/// O(n log ranks), memory O(n) for n actions. Errors: a malformed program; a compute schedule that
/// cannot progress (names the blocked actions); too few slots (names the rank and the number).
llvm::Expected<Schedule> insertP2P(const Schedule &compute, const P2POptions &options = {});

/// The program without its sends and receives (and groups without theirs).
Schedule removeP2P(const Schedule &program);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_P2P_H
