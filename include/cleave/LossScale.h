//===- LossScale.h - the scale of a program's loss ------------------*- C++ -*-===//

#ifndef CLEAVE_LOSSSCALE_H
#define CLEAVE_LOSSSCALE_H

#include <cstdint>

namespace cleave::runtime {

/// The scale of the loss between two steps of a program with `train.loss_scaling`: part of its
/// checkpoints.
struct LossScale {
  float scale = 1;
  /// Steps since the scale last changed.
  int64_t steps = 0;
  /// Steps of the run that were skipped, because gradients were not finite.
  int64_t skipped = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_LOSSSCALE_H
