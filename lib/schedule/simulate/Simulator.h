// Simulates a schedule program: when each action starts and ends, and what it waited for.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_SIMULATOR_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_SIMULATOR_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/simulate/CostTable.h"

namespace cleave::simulate {

/// An action by its place in the program; noRank if there is none.
struct ActionRef {
  static constexpr uint32_t noRank = ~0u;
  uint32_t rank = noRank;
  uint32_t position = 0;
  explicit operator bool() const { return rank != noRank; }
};

/// When an action of the compute stream ran, or a send, receive, unshard or reduction was
/// in flight (from the moment both ends were there until it was complete).
struct ActionTime {
  double start = 0;
  double end = 0;
  /// Where the action idled its rank: what it waited for (the producer of its input, the other end
  /// of a transfer, the last rank to enter a collective).
  ActionRef waitedFor;
};

/// Everything a simulation found out. Times are in the cost table's unit, from 0.
struct Timeline {
  /// By rank and position, parallel to Schedule::ranks.
  std::vector<std::vector<ActionTime>> ranks;
  /// When a rank's last action, and all it started, was complete.
  std::vector<double> rankEnd;
  /// Per rank: idle time of the compute stream that passed while the awaited data was in transit.
  std::vector<double> exposedCommunication;
  /// Per rank: the largest sum of activation memory at any time.
  std::vector<double> peakMemory;
};

struct SimulationOptions {
  /// Explicit sends and receives are matched by this; a compute-only program's transfers start
  /// when the data is there, and those from one rank to another follow each other.
  schedule::CommModel model;
};

/// Discrete-event simulation by dependencies: each rank runs its list in order on a compute stream;
/// transfers and collectives of data-parallel ranks run concurrently. Slots are taken as unbounded.
/// Time and memory are O(actions). Errors: costs that do not fit the program; a program that
/// cannot run to its end (names the blocked ranks with position and action).
llvm::Expected<Timeline> simulate(const schedule::Schedule &program, const CostTable &costs,
                                  const SimulationOptions &options = {});

/// Activation memory after each action of a rank's list (a group counts as one, with its peak in
/// the middle): for memory curves. `peak`, if given, receives the largest value.
std::vector<double> memoryCurve(const schedule::Schedule &program, const CostTable &costs,
                                unsigned rank, double *peak = nullptr);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_SIMULATOR_H
