//===- RateSchedule.cpp - the learning rate as a function of the step ------===//

#include "runtime/program/RateSchedule.h"
#include "dialects/aten/ops/Call.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

using namespace cleave;
using namespace cleave::runtime;

RateSchedule::RateSchedule(train::LearningRateOp op)
    : base(op.getBase().convertToDouble()), schedule(op.getSchedule()),
      plateau(op.getPlateau().value_or(train::PlateauAttr())) {}

RateSchedule::RateSchedule(train::HyperparameterOp op) : schedule(op.getSchedule()) {}

double RateSchedule::at(int64_t step, int64_t reductions) const {
  // Schedules count from 0.
  int64_t t = step - 1;
  double rate = getBase(reductions);
  if (schedule.getKind() != train::ScheduleKind::Geometric)
    return rate * getFactor(t);
  // As the scheduler does it: one rounded product after another.
  double factor = schedule.getFactor().getValueAsDouble();
  for (int64_t i = t / schedule.getEvery(); i > 0; --i)
    rate *= factor;
  return rate;
}

std::optional<int64_t> RateSchedule::lastStep() const {
  return schedule.getEnd() > 0 ? std::optional<int64_t>(schedule.getEnd()) : std::nullopt;
}

/// PyTorch's ReduceLROnPlateau reduces the rate that it finds.
double RateSchedule::getBase(int64_t reductions) const {
  double rate = base;
  for (int64_t i = 0; plateau && i < reductions; ++i) {
    double reduced = std::max(rate * plateau.getFactor().getValueAsDouble(),
                              plateau.getMin().getValueAsDouble());
    if (!(rate - reduced > plateau.getEps().getValueAsDouble()))
      break;
    rate = reduced;
  }
  return rate;
}

double RateSchedule::getFactor(int64_t t) const {
  switch (schedule.getKind()) {
  case train::ScheduleKind::Constant:
  case train::ScheduleKind::Geometric: // in `at`
    return 1.0;
  case train::ScheduleKind::WarmupCosine: {
    int64_t warmup = schedule.getWarmup(), total = schedule.getTotal();
    double floor = schedule.getFloor().getValueAsDouble();
    if (t < warmup)
      return double(t + 1) / double(warmup);
    if (t >= total)
      return floor;
    double progress = double(t - warmup) / double(total - warmup);
    return floor + (1.0 - floor) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
  }
  case train::ScheduleKind::Step:
    return std::pow(schedule.getFactor().getValueAsDouble(), double(t / schedule.getEvery()));
  case train::ScheduleKind::Table:
    return getTableValue(t);
  }
  return 1.0;
}

double RateSchedule::getTableValue(int64_t t) const {
  auto values = schedule.getValues().getValues<double>();
  int64_t index = t;
  if (mlir::DenseI64ArrayAttr attribute = schedule.getStarts()) {
    llvm::ArrayRef<int64_t> starts = attribute;
    index = std::upper_bound(starts.begin(), starts.end(), t) - starts.begin() - 1;
  }
  return values[std::min<int64_t>(index, values.size() - 1)];
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

std::optional<int64_t> cleave::runtime::findLastStep(const Program &program) {
  std::optional<int64_t> last;
  auto add = [&](auto op) {
    std::optional<int64_t> end = RateSchedule(op).lastStep();
    if (end && (!last || *end < *last))
      last = end;
  };
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    mlir::func::FuncOp(part.function).walk([&](mlir::Operation *op) {
      llvm::TypeSwitch<mlir::Operation *>(op).Case<train::LearningRateOp, train::HyperparameterOp>(
          add);
    });
  return last;
}

bool cleave::runtime::changesHyperparameters(const Program &program) {
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    if (!mlir::func::FuncOp(part.function).getOps<train::HyperparameterOp>().empty())
      return true;
  return false;
}

bool cleave::runtime::computesNumbers(const Program &program) {
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    if (!mlir::func::FuncOp(part.function).getOps<aten::ItemOp>().empty())
      return true;
  return false;
}

llvm::Error cleave::runtime::checkScheduledSteps(const Program &program,
                                                 std::optional<int64_t> lastStep, int64_t step) {
  if (!lastStep || step <= *lastStep)
    return llvm::Error::success();
  return makeError("{0}: the program's learning rates end with step {1}, found step {2}: export it "
                   "with schedule_steps={2} or more",
                   program.path(), *lastStep, step);
}
