// Runs a schedule with tensors, one thread a rank, over the strict backend: the verifier's verdicts
// and the slots that the library assigns, executed.

#ifndef CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_TENSORRUN_H
#define CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_TENSORRUN_H

#include "lib/schedule/model/CommModel.h"
#include "lib/schedule/model/Slots.h"

namespace cleave::strict {

/// The slots that the library assigns to the transfers of each rank.
struct SlotPlan {
  std::vector<schedule::RankSlots> receives;
  std::vector<schedule::SendSlots> sends;

  explicit SlotPlan(const schedule::Schedule &program);
};

struct TensorRun {
  /// Nothing could happen any more; `report` has who waits for what.
  bool stuck = false;
  std::string report;
  /// How far each rank came: the position of its action; the list's length at the end.
  std::vector<size_t> positions;
  /// Losses, gradients of inputs and weights that are not those of the sequential computation.
  std::vector<std::string> wrong;
  /// Transfers that met another's other end.
  unsigned mismatches = 0;
};

/// Executes a program that passes checkStructure. Stage s multiplies its input by its own weights;
/// the loss of a microbatch weighs its output, so that no two microbatches may change places.
/// All numbers are small integers in double: results are exact, whatever the order.
/// With a plan, received values and values to be sent live in its slots, and a send slot that is
/// written before its last send is known to be complete is an error; without, each has memory of
/// its own, and the model's slots are counted.
TensorRun runWithTensors(const schedule::Schedule &program, const schedule::CommModel &model,
                         const SlotPlan *plan = nullptr);

} // namespace cleave::strict

#endif // CLEAVE_TEST_UNIT_LIB_SCHEDULE_STRICT_TENSORRUN_H
