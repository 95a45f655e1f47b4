//===- Setup.cpp - what happens before the first step ---------------------===//

#include "runtime/comm/Communicator.h"
#include "runtime/session/TensorFiles.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/State.h"
#include "runtime/train/Trainer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cleave::runtime;

bool Trainer::isFirstRank() const {
  return world.rank() == 0;
}

/// What must be equal on all ranks, before anything is read or any group is made.
static std::vector<std::pair<std::string, std::string>> listOptions(const TrainOptions &options) {
  auto optional = [](const auto &value) {
    return value ? llvm::formatv("{0}", *value).str() : "not given";
  };
  return {{"--steps", std::to_string(options.steps)},
          {"--microbatches", optional(options.microbatches)},
          {"--batch", optional(options.batch)},
          {"--seed", std::to_string(options.seed)},
          {"--weight-gradients",
           options.weightGradients == WeightGradients::Deferred ? "deferred" : "immediate"},
          {"--kernels", options.kernels},
          {"--lr", optional(options.learningRate)},
          {"--lr-scale", optional(options.learningRateScale)},
          {"--data", options.data},
          {"--eval-data", options.evalData},
          {"--eval-every", std::to_string(options.evalEvery)},
          {"--eval-with", options.evaluatesAverages ? "ema" : "parameters"},
          {"--early-stopping-patience", optional(options.earlyStoppingPatience)},
          {"--evaluate", options.evaluatesOnly ? "true" : "false"},
          {"--shuffle", options.shuffle ? "true" : "false"},
          {"--documents", options.documents},
          {"--also", llvm::join(options.also, "; ")},
          {"--trace", options.trace},
          {"--trace-steps", std::to_string(options.traceSteps)},
          {"--profile", options.profile},
          {"--profile-skip", std::to_string(options.profileSkip)},
          {"--checkpoint", options.checkpoint},
          {"--checkpoint-every", std::to_string(options.checkpointEvery)},
          {"--keep-best", options.keepBest ? "true" : "false"},
          {"--resume", options.resume ? "true" : "false"},
          {"--status", options.status.empty() ? "not given" : "given"},
          {"--check", options.check.isOn ? "replicated" : "nothing"},
          {"--graphs", options.recordGraphs ? "true" : "false"},
          {"--stop-on-nan", options.stopOnNan ? "true" : "false"}};
}

llvm::Error Trainer::setUp() {
  if (llvm::Error error =
          agreeOnProgram(world, program, listOptions(options), options.kernels, options.check.isOn))
    return error;
  if (llvm::Error error = openOthers())
    return error;
  if (llvm::Error error = openEvaluation())
    return error;
  llvm::Error error = checkOptions();
  if (!error && !options.evaluatesOnly)
    error = openData();
  if (!error && evaluation)
    error = evaluation->openData(first().microbatches);
  if (llvm::Error refusal = agree(world, std::move(error), "the options and the data"))
    return refusal;
  if (llvm::Error error = openOutputs())
    return error;
  if (llvm::Error error = createSession())
    return error;
  if (llvm::Error error = resume())
    return error;
  turns = order.turnsBefore(completed + 1);
  for (const std::unique_ptr<TrainedProgram> &each : programs) {
    each->session->setRateReductions(evaluations.reductions);
    if (options.peakFlops)
      flopsPerStep.push_back(each->countFlops());
  }
  return reporter->begin(completed);
}

llvm::Error Trainer::openOthers() {
  llvm::Error error = llvm::Error::success();
  for (const std::string &text : options.also) {
    llvm::Expected<OtherProgram> other = parseOtherProgram(text);
    if (!other) {
      error = other.takeError();
      break;
    }
    auto loaded = loadProgram(other->path, {world.rank(), world.size()});
    if (!loaded) {
      error = loaded.takeError();
      break;
    }
    programs.push_back(
        std::make_unique<TrainedProgram>(std::move(*loaded), *other, world, options));
    others.push_back(std::move(*other));
  }
  if (llvm::Error refusal = agree(world, std::move(error), "the programs"))
    return refusal;
  for (const std::unique_ptr<TrainedProgram> &each : llvm::drop_begin(programs))
    if (llvm::Error refusal =
            agreeOnProgram(world, each->program, {}, options.kernels, options.check.isOn))
      return refusal;
  return llvm::Error::success();
}

llvm::Error Trainer::openEvaluation() {
  if (options.evalData.empty())
    return llvm::Error::success();
  return Evaluation::open(program, world, options).moveInto(evaluation);
}

/// What only a run with steps needs.
llvm::Error Trainer::checkTraining() {
  if (options.steps < 1)
    return makeError("expected --steps of at least 1, found {0}", options.steps);
  if (options.checkpointEvery < 0 || options.keepLast < 0)
    return makeError("expected --checkpoint-every and --keep-last of at least 0, found {0} and {1}",
                     options.checkpointEvery, options.keepLast);
  if (options.checkpoint.empty() && (options.checkpointEvery > 0 || options.resume))
    return makeError("--checkpoint-every and --resume need --checkpoint DIRECTORY");
  if (options.data.empty())
    return makeError("expected --data to train on");
  for (const std::unique_ptr<TrainedProgram> &each : programs)
    if (llvm::Error error = each->checkTraining())
      return error;
  if (programs.size() > 1 && !options.profile.empty())
    return makeError("--profile measures the steps of one program: expected it without --also");
  if (llvm::Error error = checkEvaluations())
    return error;
  if (options.evalEvery < 0)
    return makeError("expected --eval-every of at least 0, found {0}", options.evalEvery);
  if (!options.evalData.empty() && !options.profile.empty())
    return makeError("--profile measures steps of training: expected it without --eval-data");
  if (!options.profile.empty() && program.numStages() == 0)
    return makeError("{0}: --profile expects a program in stages (cleave-opt --outline-stages), "
                     "found one without",
                     program.path());
  if (options.profileSkip < 0)
    return makeError("expected --profile-skip of at least 0, found {0}", options.profileSkip);
  if (options.traceSteps < 1)
    return makeError("expected --trace-steps of at least 1, found {0}", options.traceSteps);
  return llvm::Error::success();
}

llvm::Error Trainer::checkOptions() {
  if (!options.evaluatesOnly)
    if (llvm::Error error = checkTraining())
      return error;
  if (options.vocabulary && *options.vocabulary < 1)
    return makeError("expected --vocabulary of at least 1, found {0}", *options.vocabulary);
  if (options.learningRate && options.learningRateScale)
    return makeError("expected --lr or --lr-scale, found both");

  for (const std::unique_ptr<TrainedProgram> &each : programs)
    if (llvm::Error error = each->check())
      return error;
  return llvm::Error::success();
}

llvm::Error Trainer::openData() {
  std::vector<uint64_t> steps;
  for (const std::unique_ptr<TrainedProgram> &each : programs) {
    if (llvm::Error error = each->openData())
      return error;
    steps.push_back(each->data->countSteps());
  }
  if (llvm::Error error =
          TurnOrder::create(others, steps, options.shuffle, options.seed).moveInto(order))
    return error;
  dataFingerprint = fingerprintData();
  return llvm::Error::success();
}

/// The step to continue from, 0 to start afresh.
static llvm::Expected<int64_t> chooseCheckpoint(const TrainOptions &options) {
  llvm::Expected<std::vector<int64_t>> steps = listCheckpoints(options.checkpoint);
  if (!steps)
    return steps.takeError();
  if (steps->empty())
    return 0;
  if (!options.resume)
    return makeError(
        "{0}: already has checkpoints, the latest of step {1}: use --resume to continue from "
        "it, or choose another directory",
        options.checkpoint, steps->back());
  return steps->back();
}

llvm::Error Trainer::openCheckpoints() {
  if (options.checkpoint.empty() || !isFirstRank())
    return llvm::Error::success();
  llvm::Expected<std::unique_ptr<CheckpointDirectory>> opened =
      CheckpointDirectory::open(options.checkpoint);
  if (!opened)
    return opened.takeError();
  checkpoints = std::move(*opened);
  return chooseCheckpoint(options).moveInto(resumedStep);
}

/// Everything that the run will write: what cannot be is refused here. What is there already stays
/// as it is until the run begins.
llvm::Error Trainer::openOutputs() {
  llvm::Error error = openCheckpoints();
  if (!options.trace.empty()) {
    llvm::Expected<std::unique_ptr<Tracer>> opened = Tracer::open(options.trace, world);
    error = llvm::joinErrors(std::move(error), std::move(opened).moveInto(tracer));
  }
  if (!error && !options.profile.empty())
    error = Profiler::open(options.profile, world.rank()).moveInto(profiler);
  if (!error)
    error = Reporter::open(options, world.rank()).moveInto(reporter);
  if (llvm::Error refusal = agree(world, std::move(error), "what the run writes"))
    return refusal;
  return openStatus();
}

llvm::Error Trainer::createSession() {
  SessionOptions sessionOptions;
  sessionOptions.communicator = &world;
  sessionOptions.device = options.device;
  // A recorded step finds state where it was, which is not so where programs take turns.
  sessionOptions.recordGraphs = options.recordGraphs && programs.size() == 1;
  sessionOptions.nameRanges = options.nameRanges;
  sessionOptions.seed = options.seed;
  sessionOptions.check = options.check;
  sessionOptions.poisonsDeadMemory = options.poisonsDeadMemory;
  sessionOptions.weightGradients = options.weightGradients;
  sessionOptions.kernels = options.kernels;
  if (options.onAction || tracer || !options.profile.empty())
    sessionOptions.onAction = [this](const ActionEvent &event) {
      if (options.onAction)
        options.onAction(event);
      if (tracer)
        tracer->action(event);
      if (profiler)
        profiler->add(event);
    };
  if (tracer) {
    sessionOptions.onOp = [this](const OpEvent &event) {
      if (tracer)
        tracer->op(event);
    };
    sessionOptions.onReduction = [this](const ReductionEvent &event) {
      if (tracer)
        tracer->reduction(event);
    };
  }
  llvm::Error error = first().createSession(sessionOptions);
  if (!error) {
    if (!options.weights.path.empty())
      error = loadWeights(session(), options.weights);
    else if (!program.weights().empty())
      error =
          makeError("expected --weights: the program has parameters, buffers or constants to fill");
  }
  if (llvm::Error refusal = agree(world, std::move(error), "the weights"))
    return refusal;
  for (const std::unique_ptr<TrainedProgram> &each : llvm::drop_begin(programs)) {
    // First of all: no rank waits in a group that another one does not make.
    if (llvm::Error refusal = agree(world, each->checkShares(first()), "the programs"))
      return refusal;
    if (llvm::Error refusal =
            agree(world, each->createSession(sessionOptions, first()), "the programs"))
      return refusal;
  }
  return evaluation ? agree(world, evaluation->createSession(session()), "the evaluation")
                    : llvm::Error::success();
}

llvm::Error Trainer::resume() {
  // The first rank's choice holds for all: what they see of a shared directory may be older.
  llvm::Expected<std::vector<std::string>> chosen =
      world.allGatherBytes(std::to_string(resumedStep), "the checkpoint to resume from");
  if (!chosen)
    return chosen.takeError();
  llvm::StringRef(chosen->front()).getAsInteger(10, resumedStep);
  llvm::Error error = resumedStep > 0 ? resumeFrom(resumedStep) : llvm::Error::success();
  if (!error)
    error = startProfile();
  return agree(world, std::move(error), "the checkpoint");
}

llvm::Error Trainer::startProfile() {
  if (!profiler)
    return llvm::Error::success();
  if (options.steps - completed <= options.profileSkip)
    return makeError(
        "--profile skips the first {0} steps, but the run has {1}: expected more --steps",
        options.profileSkip, options.steps - completed);
  constexpr int64_t maximum = 100; // enough for a median
  profiler->setLastStep(completed + options.profileSkip + maximum);
  return llvm::Error::success();
}

llvm::Error Trainer::resumeFrom(int64_t step) {
  llvm::Expected<Checkpoint> checkpoint =
      readCheckpoint(getCheckpointPath(options.checkpoint, step), world.rank(), world.size());
  if (!checkpoint)
    return makeError("{0} (remove this checkpoint to resume from the one before it)",
                     llvm::toString(checkpoint.takeError()));
  if (llvm::Error error = restore(session(), *checkpoint))
    return error;
  if (llvm::Error error = checkSameRun(checkpoint->state))
    return error;
  completed = checkpoint->state.step;
  return llvm::Error::success();
}

llvm::Error Trainer::checkSameRun(const CheckpointState &saved) {
  evaluations = saved.evaluations;
  savedLossScale = saved.lossScale;
  if (saved.lossScale)
    if (llvm::Error error = session().setLossScale(*saved.lossScale))
      return error;
  CheckpointState mine = stateAt(saved.step);
  auto differ = [&](llvm::StringRef what, const auto &then, const auto &now,
                    llvm::StringRef remedy = "") {
    return makeError(
        "{0}: the run was started with {1} {2}, found {3}: resuming would change its results{4}",
        options.checkpoint, what, then, now, remedy);
  };
  if (saved.seed != mine.seed)
    return differ("--seed", saved.seed, mine.seed);
  int64_t total = saved.microbatches * saved.ranks, found = first().totalMicrobatches();
  if (total != found && !options.changesBatch)
    return differ("microbatches in a step, over all ranks:", total, found,
                  " (--continue-with=batch)");
  if (saved.dataFingerprint != mine.dataFingerprint && !options.changesData)
    return differ("different data or a different order, --data", saved.data, mine.data,
                  " (--continue-with=data)");
  // A longer table of the same rates is no change.
  auto list = [](llvm::ArrayRef<double> rates) {
    return llvm::join(llvm::map_range(rates, formatNumber), ", ");
  };
  if (!saved.learningRates.empty() && saved.learningRates != mine.learningRates &&
      !options.changesRates)
    return differ("learning rates in step " + std::to_string(saved.step) + " of",
                  list(saved.learningRates), list(mine.learningRates), " (--continue-with=lr)");
  if (saved.programFingerprint != mine.programFingerprint && isFirstRank() && !options.quiet)
    std::fprintf(stderr,
                 "note: %s: written by another program for the same parameters; %s continues it\n",
                 options.checkpoint.c_str(), program.path().str().c_str());
  return llvm::Error::success();
}
