//===- RateSchedule.cpp - the learning rate as a function of the step ------===//

#include "runtime/program/RateSchedule.h"
#include "runtime/program/ProgramImpl.h"

#include <cmath>
#include <numbers>

using namespace cleave;
using namespace cleave::runtime;

RateSchedule::RateSchedule(train::LearningRateOp op)
    : base(op.getBase().convertToDouble()), kind(op.getSchedule().getKind()),
      warmup(op.getSchedule().getWarmup()), total(op.getSchedule().getTotal()),
      every(op.getSchedule().getEvery()) {
  if (mlir::FloatAttr number = op.getSchedule().getFloor())
    floor = number.getValueAsDouble();
  if (mlir::FloatAttr number = op.getSchedule().getFactor())
    decay = number.getValueAsDouble();
}

double RateSchedule::at(int64_t step) const {
  // Schedules count from 0.
  return base * getFactor(step - 1);
}

double RateSchedule::getFactor(int64_t t) const {
  switch (kind) {
  case train::ScheduleKind::Constant:
    return 1.0;
  case train::ScheduleKind::WarmupCosine: {
    if (t < warmup)
      return double(t + 1) / double(warmup);
    if (t >= total)
      return floor;
    double progress = double(t - warmup) / double(total - warmup);
    return floor + (1.0 - floor) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
  }
  case train::ScheduleKind::Step:
    return std::pow(decay, double(t / every));
  }
  return 1.0;
}

std::vector<RateSchedule> cleave::runtime::listRateSchedules(const Program &program) {
  std::vector<RateSchedule> schedules;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    mlir::func::FuncOp(part.function).walk([&](train::LearningRateOp op) {
      RateSchedule schedule(op);
      if (!llvm::is_contained(schedules, schedule))
        schedules.push_back(schedule);
    });
  return schedules;
}
