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
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
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
    llvm::Expected<double> loss = evaluation->run(session(), /*step=*/1);
    if (!loss)
      return loss.takeError();
    if (options.onEvaluated)
      options.onEvaluated(*loss);
    return llvm::Error::success();
  }
  for (const std::string &line : describeTraining())
    reporter->say(line);
  if (options.device)
    reporter->say("device: " + getDeviceText(*options.device));
  if (llvm::StringRef refusal = session().graphRefusal(); !refusal.empty())
    reporter->say(("steps are not recorded as graphs: " + refusal).str());
  else if (options.recordGraphs && programs.size() > 1)
    reporter->say("steps are not recorded as graphs: several programs take turns");
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
  return options.onEnd ? options.onEnd(session()) : llvm::Error::success();
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

std::vector<std::string> Trainer::describeTraining() const {
  std::vector<std::string> lines;
  for (const std::unique_ptr<TrainedProgram> &each : programs)
    lines.push_back(llvm::formatv("{0}: {1}; {2}", each->program.name(), each->data->describe(),
                                  each->describeBatch())
                        .str());
  if (programs.size() > 1)
    lines.push_back("programs take turns: " + order.describe());
  return lines;
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
  for (const std::unique_ptr<TrainedProgram> &each : programs) {
    const std::optional<Session::MemoryUse> &measured = each->measured;
    if (!measured)
      continue;
    if (measured->plannedBytes)
      reporter->say("memory: " + describeBytes(*measured->plannedBytes) + " planned, " +
                    describeBytes(measured->tensorBytes) + " measured, " +
                    (measured->isWorkspaceApart
                         ? "and " + describeBytes(measured->workspaceBytes) + " of workspace"
                         : "workspace of operators included"));
    if (measured->plannedHostBytes)
      reporter->say("host memory: " + describeBytes(measured->plannedHostBytes) + " planned" +
                    (measured->isWorkspaceApart
                         ? ", " + describeBytes(measured->hostBytes) + " measured"
                         : ""));
  }
}

llvm::Error Trainer::writeProfile() {
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program, &world);
  if (!grid)
    return grid.takeError();
  return profiler->finish(program, **grid, first().microbatches, completed + options.profileSkip);
}

int64_t Trainer::countDraws(llvm::ArrayRef<int64_t> turnsOfEach) const {
  int64_t draws = 0;
  for (auto [each, count] : llvm::zip_equal(programs, turnsOfEach))
    draws += count * each->draws();
  return draws;
}

std::optional<LossScale> Trainer::lossScale() const {
  std::optional<LossScale> scale = session().lossScale();
  return scale ? scale : savedLossScale;
}

/// The step's number among those that update: what was skipped before does not count.
static int64_t updateNumber(int64_t step, const std::optional<LossScale> &scale) {
  return scale ? std::max<int64_t>(step - scale->skipped, 1) : step;
}

llvm::Error Trainer::runStep(int64_t step) {
  int64_t begin = steadyNs();
  size_t number = order.programOf(step);
  TrainedProgram &current = *programs[number];
  std::optional<LossScale> scale = lossScale();
  if (llvm::Error error = current.takeLossScale(scale))
    return error;
  if (llvm::Error error = current.beginTurn(countDraws(turns)))
    return error;
  if (llvm::Error error = current.runMicrobatches(step, ++turns[number], tracer.get()))
    return error;
  llvm::Expected<std::vector<double>> losses = current.takeLosses();
  if (!losses)
    return losses.takeError();
  llvm::Expected<double> loss = averageLoss(current, step, *losses);
  if (!loss)
    return loss.takeError();
  if (options.stopOnNan)
    if (llvm::Error error = current.session->runUpdate(step))
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
  metrics.tokensPerSecond =
      double(current.totalMicrobatches() * countTokens(current.inputs)) / seconds;
  metrics.milliseconds = seconds * 1e3;
  metrics.gradientNorm = current.readGradientNorm();
  metrics.learningRates = current.getRates(updateNumber(step, scale), evaluations.reductions);
  if (std::optional<LossScale> next = current.session->lossScale()) {
    metrics.lossScale = scale->scale;
    metrics.skippedSteps = next->skipped;
    if (&current != &first())
      if (llvm::Error error = session().setLossScale(*next))
        return error;
  } else if (scale) {
    metrics.skippedSteps = scale->skipped;
  }
  if (programs.size() > 1)
    metrics.program = llvm::sys::path::stem(current.program.path()).str();
  if (options.peakFlops)
    metrics.utilization = flopsPerStep[number] / (seconds * *options.peakFlops);
  if (std::optional<Session::MemoryUse> use = current.noteMemory()) {
    metrics.tensorBytes = use->tensorBytes;
    if (use->plannedBytes)
      metrics.workspaceBytes = use->workspaceBytes;
    if (use->plannedHostBytes)
      metrics.hostBytes = use->hostBytes;
  }
  if (llvm::Error error = current.endTurn())
    return error;
  if (llvm::Error error = evaluate(metrics))
    return error;
  if (status)
    status->report(metrics, evaluations);
  return reporter->report(metrics);
}

llvm::Expected<double> Trainer::averageLoss(const TrainedProgram &current, int64_t step,
                                            llvm::ArrayRef<double> losses) {
  const Session::BatchPart &part = current.part;
  int64_t microbatches = current.microbatches;
  const LossShares *shares = current.shares.get();
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
  return shares ? sum : sum / double(current.totalMicrobatches());
}

std::string Trainer::dataText() const {
  std::string text = options.data;
  for (const std::string &also : options.also)
    text += " --also " + also;
  return text;
}

uint64_t Trainer::fingerprintData() const {
  if (programs.size() == 1)
    return first().data->fingerprint();
  uint64_t hash = llvm::xxh3_64bits(order.describe());
  for (const std::unique_ptr<TrainedProgram> &each : programs) {
    hash = hash * 31 + each->data->fingerprint();
    hash = hash * 31 + uint64_t(each->totalMicrobatches() * each->microbatchSize);
  }
  return hash;
}

CheckpointState Trainer::stateAt(int64_t step) const {
  CheckpointState state;
  state.step = step;
  state.seed = options.seed;
  std::vector<int64_t> done = order.turnsBefore(step + 1);
  state.rngOffset = countDraws(done);
  state.microbatches = first().microbatches;
  state.ranks = first().part.count;
  state.programFingerprint = program.fingerprint().str();
  state.data = dataText();
  state.dataFingerprint = dataFingerprint;
  for (auto [each, count] : llvm::zip_equal(programs, done))
    state.dataPosition += count * each->totalMicrobatches() * each->microbatchSize;
  state.lossScale = lossScale();
  state.learningRates = programs[order.programOf(step)]->getRates(
      updateNumber(step, state.lossScale), evaluations.reductions);
  state.evaluations = evaluations;
  return state;
}
