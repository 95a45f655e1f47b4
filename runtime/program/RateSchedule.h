//===- RateSchedule.h - the learning rate as a function of the step -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H
#define CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H

#include "dialects/train/Train.h"

namespace cleave::runtime {

class Program;

/// What a `train.learning_rate` gives.
struct RateSchedule {
  explicit RateSchedule(train::LearningRateOp op);

  /// Steps count from 1.
  double at(int64_t step) const;
  bool operator==(const RateSchedule &) const = default;

private:
  double getFactor(int64_t t) const;

  double base;
  train::ScheduleKind kind;
  int64_t warmup, total, every;
  double floor = 0, decay = 1;
};

/// Those of all updates of the program, each once.
std::vector<RateSchedule> listRateSchedules(const Program &program);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H
