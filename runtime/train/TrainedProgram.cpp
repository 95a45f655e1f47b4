//===- TrainedProgram.cpp - one of the programs of a run ------------------===//

#include "runtime/train/TrainedProgram.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/Compare.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/StageMap.h"
#include "runtime/session/TensorFiles.h"
#include "runtime/train/Inputs.h"
#include "runtime/train/LearningRate.h"
#include "runtime/train/Tracer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace cleave::runtime;

/// What --clip-gradients and --measure-gradient-norm make updates give.
static constexpr llvm::StringLiteral kGradientNorm = "output.gradient_norm";

TrainedProgram::TrainedProgram(std::unique_ptr<Program> loaded, const OtherProgram &other,
                               Communicator &world, const TrainOptions &options)
    : owned(std::move(loaded)), program(*owned), world(world), options(options),
      source(other.data.empty() ? options.data : other.data) {
  bool isOwn = other.microbatches || other.batch;
  wantedMicrobatches = isOwn ? other.microbatches : options.microbatches;
  wantedBatch = isOwn ? other.batch : options.batch;
  llvm::SmallString<128> path(other.path);
  llvm::sys::path::replace_extension(path, "safetensors");
  constants = path.str();
}

//===----------------------------------------------------------------------===//
// Setting up
//===----------------------------------------------------------------------===//

llvm::Error TrainedProgram::checkTraining() const {
  if (!program.hasUpdate())
    return makeError(
        "{0}: expected a program with an update function, found none: export it with an "
        "optimizer to train",
        program.path());
  if (llvm::none_of(program.results(Phase::Microbatch),
                    [](const ValueInfo &value) { return value.role == RoleKind::Loss; }))
    return makeError("{0}: expected a program with a loss, found none", program.path());
  return checkScheduledSteps(program, findLastStep(program), options.steps);
}

/// Finds the number of microbatches per step.
llvm::Error TrainedProgram::checkBatch(const ScheduleInfo *schedule) {
  llvm::Expected<int64_t> size = getMicrobatchSize(program, inputs);
  if (!size)
    return size.takeError();
  microbatchSize = *size;
  microbatches = wantedMicrobatches.value_or(schedule ? schedule->microbatches : 1);
  if (microbatches < 1)
    return makeError("expected --microbatches of at least 1, found {0}", microbatches);
  if (wantedBatch) {
    llvm::Expected<int64_t> count = countMicrobatches(*wantedBatch, part.count, microbatchSize);
    if (!count)
      return count.takeError();
    if (wantedMicrobatches && *wantedMicrobatches != *count)
      return makeError(
          "a batch of {0} examples is {1} microbatches of {2} on each of {3} ranks, found "
          "--microbatches {4}",
          *wantedBatch, *count, microbatchSize, part.count, *wantedMicrobatches);
    microbatches = *count;
  }
  if (schedule) {
    if (schedule->isForwardOnly && !options.evaluatesOnly)
      return makeError("{0}: schedule '{1}' is forward-only, so it cannot train", program.path(),
                       schedule->name);
    if (microbatches != schedule->microbatches)
      return makeError("{0}: schedule '{1}' is for {2} microbatches per step, found {3} {4}",
                       program.path(), schedule->name, schedule->microbatches,
                       wantedBatch ? "a --batch of" : "--microbatches", microbatches);
  }
  return llvm::Error::success();
}

llvm::Error TrainedProgram::check() {
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program, &world);
  if (!grid)
    return grid.takeError();
  for (const ValueInfo &value : program.inputs())
    if (value.batch && !value.over.empty() && !program.isTyped())
      part = (*grid)->along(value.over);
  inputs = readInputs(program, **grid);
  const ScheduleInfo *schedule = program.schedule();
  int64_t holders = isRunBySchedule(program, &world) ? schedule->ranks : 1;
  if (!options.checkpoint.empty() && part.count * holders != world.size() && !program.isTyped())
    return makeError(
        "{0}: checkpoints need every rank to hold the whole model, but {1} ranks run {2} "
        "parts of the batch",
        program.path(), world.size(), part.count);
  if (llvm::Error error = checkBatch(schedule))
    return error;
  if (options.memoryLimit)
    if (llvm::Error error = isRunBySchedule(program, &world)
                                ? checkScheduleMemoryLimit(program, *options.memoryLimit)
                                : checkMemoryLimit(program, microbatches, options.weightGradients,
                                                   *options.memoryLimit))
      return error;
  llvm::Error error = options.learningRate ? setLearningRate(program, *options.learningRate)
                      : options.learningRateScale
                          ? scaleLearningRates(program, *options.learningRateScale)
                          : llvm::Error::success();
  rates = listRateSchedules(program);
  return error;
}

llvm::Error TrainedProgram::openData() {
  DataOptions dataOptions;
  dataOptions.source = source;
  dataOptions.seed = options.seed;
  dataOptions.microbatches = microbatches;
  dataOptions.ranks = part.count;
  dataOptions.shuffle = options.shuffle;
  dataOptions.documents = options.documents;
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program, &world);
  if (!grid)
    return grid.takeError();
  if (llvm::Error error = LossShares::create(program, **grid).moveInto(shares))
    return error;
  std::vector<InputSpec> specs = describeInputs(program, inputs, **grid);
  if (options.vocabulary)
    for (InputSpec &spec : specs)
      spec.vocabulary = *options.vocabulary;
  return DataSource::open(dataOptions, specs).moveInto(data);
}

llvm::Error TrainedProgram::createSession(SessionOptions base) {
  base.microbatches = microbatches;
  reportsNorm = world.rank() == 0 &&
                llvm::any_of(program.results(Phase::Update),
                             [](const auto &value) { return value.fileName == kGradientNorm; });
  return Session::create(program, base).moveInto(session);
}

llvm::Error TrainedProgram::checkShares(const TrainedProgram &keeper) {
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program, &world);
  if (!grid)
    return grid.takeError();
  return listSharedState(keeper.program, keeper.session->stages(), program,
                         StageMap(program, **grid))
      .moveInto(sharedNames);
}

llvm::Error TrainedProgram::createSession(SessionOptions base, TrainedProgram &keeper) {
  base.borrowed = sharedNames;
  if (!hasKernels(program))
    base.kernels = "best";
  base.poisonsDeadMemory &= isLowered(program);
  if (llvm::Error error = createSession(std::move(base)))
    return error;
  shared = std::make_unique<SharedState>(*keeper.session, *session, sharedNames);
  // Constants, and what masks of its length state dicts leave out.
  return readConstants(*session, constants,
                       [&](const ValueInfo &value) { return !sharedNames.count(value.fileName); });
}

std::string TrainedProgram::describeBatch() const {
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

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

llvm::Error TrainedProgram::beginTurn(int64_t drawsBefore) {
  session->setDrawsBefore(drawsBefore);
  ++turns;
  return shared ? shared->lend() : llvm::Error::success();
}

llvm::Error TrainedProgram::endTurn() {
  return shared ? shared->giveBack() : llvm::Error::success();
}

llvm::Error TrainedProgram::runMicrobatches(int64_t step, int64_t turn, Tracer *tracer) {
  int64_t begin = steadyNs();
  if (shares)
    if (llvm::Error error = shares->begin(turn, *data, microbatches, *session, world))
      return error;
  auto fill = [&](int64_t index) -> llvm::Error {
    begin = steadyNs();
    if (shares)
      return fillInputs(*session, shares->batch(index));
    llvm::Expected<std::vector<HostTensor>> batch = data->read({turn - 1, part.index, index});
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

llvm::Expected<std::vector<double>> TrainedProgram::takeLosses() {
  llvm::Expected<std::vector<double>> noted = session->takeLosses();
  if (!noted)
    return noted.takeError();
  std::vector<double> losses(noted->empty() ? 0 : microbatches);
  for (auto [index, loss] : llvm::zip_equal(std::exchange(lossOrder, {}), *noted))
    losses[index] = loss;
  return losses;
}

std::optional<double> TrainedProgram::readGradientNorm() {
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

llvm::Error TrainedProgram::takeLossScale(const std::optional<LossScale> &scale) {
  return shared && scale ? session->setLossScale(*scale) : llvm::Error::success();
}

std::vector<double> TrainedProgram::getRates(int64_t update, int64_t reductions) const {
  std::vector<double> result;
  for (const RateSchedule &rate : rates)
    result.push_back(rate.at(update, reductions));
  return result;
}

double TrainedProgram::countFlops() const {
  if (!session->isScheduled())
    return double(computeCosts(program, microbatches, options.weightGradients).flops);
  double sum = 0;
  std::vector<ProgramCosts> costs = computeScheduleCosts(program);
  for (const ProgramCosts &place : costs)
    sum += double(place.flops);
  return sum / double(costs.size());
}

std::optional<Session::MemoryUse> TrainedProgram::noteMemory() {
  std::optional<Session::MemoryUse> use = session->memoryUse();
  if (!use)
    return std::nullopt;
  // The first step only counts where it is the only one.
  if (!measured || turns == 2) {
    measured = use;
  } else {
    measured->tensorBytes = std::max(measured->tensorBytes, use->tensorBytes);
    measured->workspaceBytes = std::max(measured->workspaceBytes, use->workspaceBytes);
    measured->hostBytes = std::max(measured->hostBytes, use->hostBytes);
  }
  session->resetMemoryUse();
  return use;
}
