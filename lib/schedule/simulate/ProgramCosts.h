// Costs of a program in stages on a described machine: the roofline of every op.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H

#include "lib/schedule/simulate/DeviceModel.h"

#include "llvm/ADT/ArrayRef.h"

namespace cleave::simulate {

/// One op of a stage's function, as far as its time depends on it.
struct OpWork {
  Work work;
  /// Of a communication over mesh axes: bytes that the busiest rank sends, and messages that follow
  /// each other. No messages: it is none.
  double sentBytes = 0;
  double messages = 0;
  /// A communication that overlaps the ops after it, and the op that waits for it, have the same
  /// number; -1 for all others.
  int starts = -1;
  int awaits = -1;
};
using FunctionWork = std::vector<OpWork>;

/// What the functions of a stage do; those that it does not have are empty.
struct StageWork {
  FunctionWork forward, backward, input, weight, unshard, reduce, update;
  bool hasBackward = false; // in one function
  bool hasHalves = true;    // of the backward; a stage without backward has empty ones
  /// Of one microbatch: the output for the next stage, the input gradient for the one before.
  double forwardBytes = 0, backwardBytes = 0;
  /// Bytes that one microbatch keeps after the forward, and after the input gradient for the weight
  /// gradient.
  double savedBytes = 0, heldBytes = 0;

  bool communicates() const;
};

/// Seconds of a function: its ops one after another, communications on a stream of their own.
double timeOf(const Machine &machine, llvm::ArrayRef<OpWork> function);

/// In milliseconds and bytes. Fails if stages communicate over mesh axes and the machine has no
/// "collective" link.
llvm::Expected<CostTable> costsOfStages(const Machine &machine, llvm::ArrayRef<StageWork> stages);

/// Gives a table of times (one entry, or one a stage) the activation memory of the stages.
llvm::Error setMemory(CostTable &table, llvm::ArrayRef<StageWork> stages);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H
