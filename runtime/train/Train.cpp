//===- Train.cpp - the training loop --------------------------------------===//

#include "runtime/train/Train.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Failure.h"
#include "runtime/device/OpenDevice.h"
#include "runtime/exec/Compare.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/Inputs.h"
#include "runtime/train/Trainer.h"
#include "llvm/ADT/BitVector.h"
#include <cmath>
#include <cstring>

using namespace cleave::runtime;

llvm::Error cleave::runtime::train(Program &program, Communicator &world,
                                   const TrainOptions &options) {
  Trainer trainer(program, world, options);
  if (llvm::Error error = trainer.setUp())
    return error;
  return trainer.run();
}

/// The messages of an error, which stays.
static std::string readMessages(const llvm::Error &error) {
  std::string text;
  llvm::visitErrors(error, [&](const llvm::ErrorInfoBase &info) {
    text += (text.empty() ? "" : "\n") + info.message();
  });
  return text;
}

llvm::Error Trainer::run() {
  if (evaluation)
    reporter->say(evaluation->describe());
  if (options.evaluatesOnly) {
    llvm::Expected<double> loss = evaluation->run(*session, /*step=*/1);
    if (!loss)
      return loss.takeError();
    if (options.onEvaluated)
      options.onEvaluated(*loss);
    return llvm::Error::success();
  }
  reporter->say(
      llvm::formatv("{0}: {1}; {2}", program.name(), data->describe(), describeBatch()).str());
  if (options.device)
    reporter->say("device: " + getDeviceText(*options.device));
  if (llvm::StringRef refusal = session->graphRefusal(); !refusal.empty())
    reporter->say(("steps are not recorded as graphs: " + refusal).str());
  else if (options.recordGraphs && options.stopOnNan)
    reporter->say("a step is recorded as two graphs: its update waits for the losses "
                  "(--stop-on-nan)");
  if (completed >= options.steps) {
    reporter->say(llvm::formatv("nothing to do: the checkpoint in {0} has {1} of {2} steps",
                                options.checkpoint, completed, options.steps)
                      .str());
    return llvm::Error::success();
  }
  if (stopsEarly()) {
    reporter->say(llvm::formatv("nothing to do: the run in {0} has stopped early after step {1} "
                                "(--early-stopping-patience)",
                                options.checkpoint, completed)
                      .str());
    return llvm::Error::success();
  }
  if (completed > 0)
    reporter->say(llvm::formatv("resuming after step {0}", completed).str());
  if (status)
    status->begin(completed);
  llvm::Error error = runSteps();
  if (status)
    status->end(!error                      ? "finished"
                : error.isA<Interruption>() ? "interrupted"
                                            : "failed",
                readMessages(error));
  if (error)
    return error;
  if (profiler)
    if (llvm::Error error = writeProfile())
      return error;
  reportMemory();
  return options.onEnd ? options.onEnd(*session) : llvm::Error::success();
}

llvm::Error Trainer::runSteps() {
  for (int64_t step = completed + 1; step <= options.steps; ++step) {
    if (llvm::Error error = runStep(step))
      return error;
    bool isLast = step == options.steps || stopsEarly();
    bool isDue = options.checkpointEvery > 0 && step % options.checkpointEvery == 0;
    bool isSaved = !options.checkpoint.empty() && (isDue || isLast || (isBest && options.keepBest));
    if (isSaved) {
      if (status)
        status->setState("saving");
      if (llvm::Error error = save(step))
        return error;
      if (isBest && options.keepBest)
        if (llvm::Error error = linkBest(step))
          return error;
      if (status)
        status->setState("training");
    }
    if (signal && !isLast)
      return interrupt(step, isSaved);
    if (isLast || step - completed >= options.traceSteps)
      if (llvm::Error error = finishTrace())
        return error;
    if (isLast && step < options.steps)
      reporter->say(llvm::formatv("stopped early after step {0}: no lower evaluation loss in {1} "
                                  "evaluations; the lowest was "
                                  "{2}, after step {3}",
                                  step, evaluations.withoutImprovement,
                                  formatNumber(evaluations.best.value_or(NAN)),
                                  evaluations.bestStep)
                        .str());
    if (isLast)
      break;
  }
  return llvm::Error::success();
}

std::string Trainer::describeBatch() const {
  std::string ranks =
      llvm::formatv("{0} rank{1}", world.size(), world.size() == 1 ? "" : "s").str();
  // Ranks that share a model take each microbatch together.
  if (part.count == 1 && world.size() > 1)
    ranks += " together,";
  else if (part.count != world.size())
    ranks += llvm::formatv(" in {0} groups x", part.count).str();
  else
    ranks += " x";
  return llvm::formatv("{0} {1} microbatch{2} of {3}", ranks, microbatches,
                       microbatches == 1 ? "" : "es", microbatchSize)
      .str();
}

llvm::Error Trainer::finishTrace() {
  if (!tracer)
    return llvm::Error::success();
  llvm::Error error = tracer->finish();
  tracer.reset();
  return error;
}

llvm::Error Trainer::interrupt(int64_t step, bool isSaved) {
  // No rank ends before the checkpoint is whole: the others' end would be taken for a failure.
  if (llvm::Error error =
          agree(world, isSaved || options.checkpoint.empty() ? llvm::Error::success() : save(step),
                "the checkpoint"))
    return error;
  if (llvm::Error error = finishTrace())
    return error;
  std::string text =
      llvm::formatv("interrupted by {0} after step {1}", describeSignal(signal), step).str();
  if (!options.checkpoint.empty())
    text += llvm::formatv("; saved {0}, from which --resume continues",
                          getCheckpointPath(options.checkpoint, step))
                .str();
  return llvm::make_error<Interruption>(signal, std::move(text));
}

void Trainer::reportMemory() {
  if (!measured)
    return;
  reporter->say("memory: " + describeBytes(measured->plannedBytes) + " planned, " +
                describeBytes(measured->tensorBytes) + " measured, " +
                (measured->isWorkspaceApart
                     ? "and " + describeBytes(measured->workspaceBytes) + " of workspace"
                     : "workspace of operators included"));
}

/// What a step has used. The first one only counts where it is the only one: ops then still show
/// where their results lie.
void Trainer::noteMemory(StepMetrics &metrics) {
  std::optional<Session::MemoryUse> use = session->memoryUse();
  if (!use)
    return;
  metrics.tensorBytes = use->tensorBytes;
  metrics.workspaceBytes = use->workspaceBytes;
  if (!measured || metrics.step == completed + 2) {
    measured = use;
  } else {
    measured->tensorBytes = std::max(measured->tensorBytes, use->tensorBytes);
    measured->workspaceBytes = std::max(measured->workspaceBytes, use->workspaceBytes);
  }
  session->resetMemoryUse();
}

llvm::Error Trainer::writeProfile() {
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program, &world);
  if (!grid)
    return grid.takeError();
  return profiler->finish(program, **grid, microbatches, completed + options.profileSkip);
}

llvm::Error Trainer::runMicrobatches(int64_t step) {
  int64_t begin = steadyNs();
  if (shares)
    if (llvm::Error error = shares->begin(step, *data, microbatches, *session, world))
      return error;
  auto fill = [&](int64_t index) -> llvm::Error {
    begin = steadyNs();
    if (shares)
      return fillInputs(*session, shares->batch(index));
    llvm::Expected<std::vector<HostTensor>> batch = data->read({step - 1, part.index, index});
    if (!batch)
      return batch.takeError();
    return fillInputs(*session, *batch);
  };
  auto done = [&](int64_t index) -> llvm::Error {
    if (llvm::Error error = session->noteLoss())
      return error;
    lossOrder.push_back(index);
    if (tracer && !session->isScheduled())
      tracer->span(llvm::formatv("microbatch {0}", index).str(), begin, steadyNs());
    return llvm::Error::success();
  };
  if (options.stopOnNan)
    return session->runMicrobatches(step, fill, done);
  // Ranks wait for each other's losses after the update.
  return session->runStep(step, fill, done);
}

llvm::Expected<std::vector<double>> Trainer::takeLosses() {
  llvm::Expected<std::vector<double>> noted = session->takeLosses();
  if (!noted)
    return noted.takeError();
  std::vector<double> losses(noted->empty() ? 0 : microbatches);
  for (auto [index, loss] : llvm::zip_equal(std::exchange(lossOrder, {}), *noted))
    losses[index] = loss;
  return losses;
}

llvm::Error Trainer::runStep(int64_t step) {
  int64_t begin = steadyNs();
  std::optional<LossScale> scale = session->lossScale();
  if (llvm::Error error = runMicrobatches(step))
    return error;
  llvm::Expected<std::vector<double>> losses = takeLosses();
  if (!losses)
    return losses.takeError();
  llvm::Expected<double> loss = averageLoss(step, *losses);
  if (!loss)
    return loss.takeError();
  if (options.stopOnNan)
    if (llvm::Error error = session->runUpdate(step))
      return error;
  int64_t end = steadyNs();
  if (options.onStep)
    options.onStep(step, *loss);
  if (tracer)
    tracer->span(llvm::formatv("step {0}", step).str(), begin, end);
  double seconds = double(end - begin) * 1e-9;
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = *loss;
  metrics.tokensPerSecond = double(totalMicrobatches() * countTokens(inputs)) / seconds;
  metrics.milliseconds = seconds * 1e3;
  metrics.gradientNorm = readGradientNorm();
  metrics.learningRates = getRates(step, scale);
  if (scale) {
    metrics.lossScale = scale->scale;
    metrics.skippedSteps = session->lossScale()->skipped;
  }
  if (options.peakFlops)
    metrics.utilization = flopsPerStep / (seconds * *options.peakFlops);
  noteMemory(metrics);
  if (llvm::Error error = evaluate(metrics))
    return error;
  if (status)
    status->report(metrics, evaluations);
  return reporter->report(metrics);
}

std::optional<double> Trainer::readGradientNorm() {
  if (!reportsNorm)
    return std::nullopt;
  llvm::Expected<ConstTensorRef> norm = session->result(kGradientNorm);
  if (!norm) {
    // No update of this rank's stages gives it.
    llvm::consumeError(norm.takeError());
    return std::nullopt;
  }
  return toNumber(*norm);
}

llvm::Expected<double> Trainer::averageLoss(int64_t step, llvm::ArrayRef<double> losses) {
  // A message is the rank's part of the batch, a signal that it got, and its losses.
  struct Head {
    int64_t part, signal;
  } head{part.index, options.pendingSignal ? options.pendingSignal() : 0};
  std::string message(sizeof head + losses.size() * sizeof(double), '\0');
  std::memcpy(message.data(), &head, sizeof head);
  std::memcpy(message.data() + sizeof head, losses.data(), losses.size() * sizeof(double));
  llvm::Expected<std::vector<std::string>> all = world.allGatherBytes(message, "the loss");
  if (!all)
    return all.takeError();
  double sum = 0;
  llvm::BitVector seen(part.count);
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string &theirs = (*all)[rank];
    Head other{-1, 0};
    if (theirs.size() >= sizeof other)
      std::memcpy(&other, theirs.data(), sizeof other);
    if (!signal)
      signal = int(other.signal);
    if (theirs.size() == sizeof other)
      continue; // its stages do not make the loss
    int64_t index = other.part;
    if (theirs.size() != sizeof other + microbatches * sizeof(double) || index < 0 ||
        index >= part.count)
      return makeError("step {0}: rank {1} sent no losses of this run", step, rank);
    if (seen.test(index))
      continue; // ranks with the same part of the batch have the same losses
    seen.set(index);
    for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      double loss;
      std::memcpy(&loss, theirs.data() + sizeof other + microbatch * sizeof loss, sizeof loss);
      // A microbatch without a target that counts has no loss.
      double share = shares ? shares->share(index, microbatch) : 1;
      if (share == 0 && !shares->isEmpty())
        continue;
      if (options.stopOnNan && !std::isfinite(loss))
        return llvm::make_error<CollectiveRefusal>(
            llvm::formatv("step {0}: the loss is {1} on rank {2}, microbatch {3} (--stop-on-nan)",
                          step, describeNonFinite(loss), rank, microbatch)
                .str());
      sum += shares && share > 0 ? loss * share : loss;
    }
  }
  return shares ? sum : sum / double(totalMicrobatches());
}

CheckpointState Trainer::stateAt(int64_t step) const {
  CheckpointState state;
  state.step = step;
  state.seed = options.seed;
  state.rngOffset = step * totalMicrobatches() * program.draws();
  state.microbatches = microbatches;
  state.ranks = part.count;
  state.programFingerprint = program.fingerprint().str();
  state.data = options.data;
  state.dataFingerprint = dataFingerprint;
  state.dataPosition = step * totalMicrobatches() * microbatchSize;
  state.lossScale = session->lossScale();
  state.learningRates = getRates(step, state.lossScale);
  state.evaluations = evaluations;
  return state;
}
