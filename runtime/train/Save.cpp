//===- Save.cpp - checkpoints of a run ------------------------------------===//

#include "runtime/train/Agreement.h"
#include "runtime/train/State.h"
#include "runtime/train/Trainer.h"

using namespace cleave::runtime;

llvm::Error Trainer::save(int64_t step) {
  if (world.size() > 1 && (program.isTyped() || session().isScheduled()))
    return saveParts(step);
  if (!isFirstRank())
    return llvm::Error::success();
  llvm::Expected<CheckpointViews> views = viewState(session());
  if (!views)
    return views.takeError();
  auto &[model, loss, optimizer] = *views;
  return checkpoints->write(stateAt(step), model, optimizer, options.keepLast, loss);
}

llvm::Error Trainer::saveParts(int64_t step) {
  llvm::StringRef what = "the checkpoint";
  llvm::Error error = isFirstRank() ? checkpoints->begin(step) : llvm::Error::success();
  if (llvm::Error refusal = agree(world, std::move(error), what))
    return refusal;
  llvm::Expected<StateParts> state = viewParts(session());
  std::string report;
  error = state ? writeCheckpointParts(options.checkpoint, step, world.rank(), world.size(),
                                       state->views)
                      .moveInto(report)
                : state.takeError();
  if (llvm::Error refusal = agree(world, std::move(error), what))
    return refusal;
  llvm::Expected<std::vector<std::string>> reports = world.allGatherBytes(report, what);
  if (!reports)
    return reports.takeError();
  error = isFirstRank()
              ? checkpoints->finish(stateAt(step), state->parts, *reports, options.keepLast)
              : llvm::Error::success();
  return agree(world, std::move(error), what);
}
