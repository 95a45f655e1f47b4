//===- Progression.cpp - what a run's evaluations lead to -----------------===//

#include "dialects/train/StateDict.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/Trainer.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <unistd.h>

using namespace cleave;
using namespace cleave::runtime;

static PlateauRule readRule(train::PlateauAttr plateau) {
  return {plateau.getMode() == train::ThresholdMode::Relative,
          plateau.getThreshold().getValueAsDouble(), plateau.getPatience(), plateau.getCooldown()};
}

/// When the program's learning rates are reduced; none if no evaluation changes any.
static std::optional<PlateauRule> findPlateau(const Program &program) {
  for (const RateSchedule &rate : listRateSchedules(program))
    if (train::PlateauAttr plateau = rate.getPlateau())
      return readRule(plateau);
  return std::nullopt;
}

llvm::Error Trainer::checkEvaluations() {
  bool hasEvaluation = !options.evalData.empty();
  if (options.earlyStoppingPatience && *options.earlyStoppingPatience < 1)
    return makeError("expected --early-stopping-patience of at least 1, found {0}",
                     *options.earlyStoppingPatience);
  if ((options.earlyStoppingPatience || options.keepBest) && (!hasEvaluation || !options.evalEvery))
    return makeError(
        "--early-stopping-patience and --keep-best go by the evaluation loss: expected "
        "--eval-data and --eval-every");
  if (options.keepBest && options.checkpoint.empty())
    return makeError("--keep-best needs --checkpoint DIRECTORY");
  if ((options.changesData || options.changesBatch || options.changesRates) && !options.resume)
    return makeError(
        "--continue-with says what differs from the run that --resume continues: expected "
        "--resume");
  if (options.peakFlops && !(std::isfinite(*options.peakFlops) && *options.peakFlops > 0))
    return makeError(
        "expected --peak-flops above 0, the operations of a rank's device in a second, "
        "found {0}",
        formatNumber(*options.peakFlops));
  bool hasAverages = llvm::any_of(program.optimizerStates(), [](const ValueInfo &value) {
    return value.slot == train::kAverageSlot;
  });
  if (options.evaluatesAverages && !hasAverages)
    return makeError("{0}: --eval-with ema expects moving averages of the parameters, found none: "
                     "export it with ema=cleave.EMA(decay)",
                     program.path());
  std::optional<PlateauRule> rule = findPlateau(program);
  for (const RateSchedule &rate : listRateSchedules(program))
    if (train::PlateauAttr plateau = rate.getPlateau(); plateau && !(readRule(plateau) == *rule))
      return makeError("{0}: expected learning rates that are reduced on a plateau to have one "
                       "threshold, patience and cooldown, found several",
                       program.path());
  if (rule && (!hasEvaluation || !options.evalEvery))
    return makeError(
        "{0}: its learning rate is reduced when the evaluation loss no longer improves "
        "(ReduceLROnPlateau): expected --eval-data and --eval-every",
        program.path());
  return llvm::Error::success();
}

llvm::Error Trainer::evaluate(StepMetrics &metrics) {
  isBest = false;
  bool isDue = options.evalEvery > 0 && metrics.step % options.evalEvery == 0;
  if (!evaluation || (!isDue && metrics.step != options.steps))
    return llvm::Error::success();
  if (status)
    status->setState("evaluating");
  if (options.evaluatesAverages)
    if (llvm::Error error = session().swapAverages())
      return error;
  if (llvm::Error error =
          evaluation->run(session(), metrics.step).moveInto(metrics.evalLoss.emplace()))
    return error;
  if (options.evaluatesAverages)
    if (llvm::Error error = session().swapAverages())
      return error;
  if (status)
    status->setState("training");
  session().resetMemoryUse();
  // One after the last step alone is not of the series, if the run is continued.
  if (!isDue)
    return llvm::Error::success();
  isBest = evaluations.add(metrics.step, *metrics.evalLoss);
  if (std::optional<PlateauRule> rule = findPlateau(program))
    if (evaluations.reduceOnPlateau(*metrics.evalLoss, *rule))
      for (const std::unique_ptr<TrainedProgram> &each : programs)
        each->session->setRateReductions(evaluations.reductions);
  return llvm::Error::success();
}

bool Trainer::stopsEarly() const {
  return options.earlyStoppingPatience &&
         evaluations.withoutImprovement >= *options.earlyStoppingPatience;
}

llvm::Error Trainer::linkBest(int64_t step) {
  if (!isFirstRank())
    return llvm::Error::success();
  std::string link = options.checkpoint + "/best", temporary = options.checkpoint + "/.best";
  std::string target =
      llvm::StringRef(getCheckpointPath(options.checkpoint, step)).rsplit('/').second.str();
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), link.c_str()) != 0)
    return makeSystemError(link, "write");
  // The one that was the best until now stayed when this one was written.
  return options.keepLast > 0 ? checkpoints->removeOld(options.keepLast) : llvm::Error::success();
}

llvm::Error Trainer::openStatus() {
  if (options.status.empty())
    return llvm::Error::success();
  llvm::Error error =
      Status::open(options.status, program.name(), options.steps, world).moveInto(status);
  return agree(world, std::move(error), "the status");
}
