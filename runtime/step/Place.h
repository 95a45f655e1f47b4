//===- Place.h - where a function's values come from and go --------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_PLACE_H
#define CLEAVE_RUNTIME_STEP_PLACE_H

#include <cstddef>
#include <cstdint>

namespace cleave::runtime {

/// Where an argument of a function comes from, or where a result goes: a list of StepState or
/// MicrobatchState, and an index in it.
struct Place {
  enum Kind : uint8_t {
    Weight,
    State,
    Input,
    Result,
    Seed,
    Step,
    RngSeed,
    RngOffset,
    Saved,     ///< by another function of the microbatch, in this stage or a neighbour
    Unsharded, ///< saved for all microbatches of the step
    StageSum,  ///< a sum of what the stages' reduce functions return
    LossScale
  } kind;
  size_t index = 0;
  /// The function may overwrite the value: a result replaces the argument, or this is the last use
  /// of a saved value.
  bool isTied = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_PLACE_H
