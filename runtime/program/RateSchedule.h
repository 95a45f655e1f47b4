//===- RateSchedule.h - the learning rate as a function of the step -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H
#define CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H

#include "dialects/train/Train.h"

namespace cleave::runtime {

class Program;

/// What a `train.learning_rate` or a `train.hyperparameter` gives.
struct RateSchedule {
  explicit RateSchedule(train::LearningRateOp op);
  explicit RateSchedule(train::HyperparameterOp op);

  /// Steps count from 1, up to `lastStep()`. `reductions` is how often a plateau has reduced the
  /// base so far.
  double at(int64_t step, int64_t reductions = 0) const;
  /// The last step that the schedule has a number for, where it has a last one.
  std::optional<int64_t> lastStep() const;
  /// Null for a rate that no evaluation changes.
  train::PlateauAttr getPlateau() const { return plateau; }
  bool operator==(const RateSchedule &) const = default;

private:
  double getBase(int64_t reductions) const;
  double getFactor(int64_t t) const;
  double getTableValue(int64_t t) const;

  double base = 1.0;
  train::ScheduleAttr schedule;
  train::PlateauAttr plateau;
};

/// Those of the learning rates of all updates of the program, each once.
std::vector<RateSchedule> listRateSchedules(const Program &program);
/// The last step that the program can run: where the first of its schedules ends. None without end.
std::optional<int64_t> findLastStep(const Program &program);
/// Whether a momentum or beta of the optimizer changes from step to step.
bool changesHyperparameters(const Program &program);
/// Whether the host computes numbers that operators take.
bool computesNumbers(const Program &program);
/// An error for a step, or a number of steps, after the last one.
llvm::Error checkScheduledSteps(const Program &program, std::optional<int64_t> lastStep,
                                int64_t step);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_RATESCHEDULE_H
