//===- Evaluation.cpp - the loss over an evaluation set -------------------===//

#include "runtime/train/Evaluation.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/WholeTensors.h"
#include "runtime/session/SharedState.h"
#include "runtime/session/TensorFiles.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/Inputs.h"
#include "runtime/train/LossShares.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Setting up
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Evaluation>>
Evaluation::open(const Program &training, Communicator &world, const TrainOptions &options) {
  std::unique_ptr<Evaluation> evaluation(new Evaluation(training, world, options));
  llvm::Error error = llvm::Error::success();
  if (!options.evalProgram.empty())
    error =
        loadProgram(options.evalProgram, {world.rank(), world.size()}).moveInto(evaluation->other);
  if (!error)
    error = evaluation->checkProgram();
  if (llvm::Error refusal = agree(world, std::move(error), "the evaluation"))
    return refusal;
  if (evaluation->other) {
    if (llvm::Error refusal = agreeOnProgram(world, *evaluation->other, {}, options.kernels, false))
      return refusal;
    if (evaluation->other->mesh().empty() && world.size() > 1)
      evaluation->alone = makeSingleRankCommunicator();
  }
  return evaluation;
}

llvm::Error Evaluation::checkProgram() const {
  llvm::ArrayRef<ValueInfo> results = program().results(Phase::Microbatch);
  if (llvm::none_of(results, [](const ValueInfo &value) { return value.role == RoleKind::Loss; }))
    return makeError("{0}: expected a program with a loss to evaluate, found none",
                     program().path());
  const char *remedy = options.evalProgram.empty()
                           ? "expected --eval-program FILE, the module exported after eval() with "
                             "--mode loss"
                           : "expected the module exported after eval()";
  if (program().draws() > 0)
    return makeError("{0}: the program draws random numbers (dropout), so its loss is that of "
                     "training: {1}",
                     program().path(), remedy);
  for (const ValueInfo &value : results)
    if (value.role == RoleKind::Buffer)
      return makeError(
          "{0}: the program changes the buffer '{1}', so its loss is that of training: "
          "{2}",
          program().path(), value.name, remedy);
  return llvm::Error::success();
}

llvm::Error Evaluation::openData(int64_t trainingMicrobatches) {
  llvm::Expected<std::unique_ptr<RankGrid>> grid = RankGrid::create(program(), &ranks());
  if (!grid)
    return grid.takeError();
  for (const ValueInfo &value : program().inputs())
    if (value.batch && !value.over.empty() && !program().isTyped())
      part = (*grid)->along(value.over);
  if (alone)
    part = {world.rank(), world.size()};
  std::vector<ValueInfo> inputs = readInputs(program(), **grid);
  llvm::Expected<int64_t> size = getMicrobatchSize(program(), inputs);
  if (!size)
    return size.takeError();
  microbatchSize = *size;
  const ScheduleInfo *schedule = program().schedule();
  microbatches = schedule ? schedule->microbatches : other ? 1 : trainingMicrobatches;

  if (llvm::Error error = CountedTargets::find(program(), **grid).moveInto(targets))
    return error;
  DataOptions dataOptions;
  dataOptions.source = options.evalData;
  dataOptions.seed = options.seed;
  dataOptions.shuffle = false; // a step of this source is a microbatch
  dataOptions.documents = options.documents;
  std::vector<InputSpec> specs = describeInputs(program(), inputs, **grid);
  if (options.vocabulary)
    for (InputSpec &spec : specs)
      spec.vocabulary = *options.vocabulary;
  if (llvm::Error error = DataSource::open(dataOptions, specs).moveInto(data))
    return error;
  if (data->countSteps() == 0)
    return makeError(
        "{0}: expected at least a microbatch of {1} examples to evaluate on, found less",
        options.evalData, microbatchSize);
  return llvm::Error::success();
}

/// The training's value that an evaluated program's is; null if there is none.
static const ValueInfo *findWeight(const Program &training, const ValueInfo &wanted) {
  for (const ValueInfo &value : training.weights())
    if (value.name == wanted.name || llvm::is_contained(value.aliases, wanted.name))
      return &value;
  return nullptr;
}

llvm::Error Evaluation::createSession(Session &from) {
  if (!other)
    return llvm::Error::success();
  SessionOptions sessionOptions;
  sessionOptions.communicator = &ranks();
  sessionOptions.device = options.device;
  sessionOptions.microbatches = microbatches;
  sessionOptions.seed = options.seed;
  sessionOptions.kernels = hasKernels(*other) ? options.kernels : "best";
  if (llvm::Error error = Session::create(*other, sessionOptions).moveInto(session))
    return error;
  for (const ValueInfo &value : other->weights()) {
    if (value.role == RoleKind::Constant)
      continue;
    const ValueInfo *source = findWeight(training, value);
    if (!source)
      return makeError("{0}: the training's program has no '{1}'", other->path(), value.name);
    if (!isWholeOf(value, wholeType(*source, from.grid()), session->grid()))
      return makeError("{0}: '{1}' is {2}, in the training's program {3}", other->path(),
                       value.name, describeWhole(value, session->grid()),
                       describeWhole(*source, from.grid()));
    if (from.isScheduled() && session->hasWeight(value.name) &&
        (!from.hasWeight(source->name) || !haveSamePlacements(value, *source)))
      return makeError("{0}: expected '{1}' on the ranks where the training's stages have it: "
                       "evaluate a program with the same stages and schedule",
                       other->path(), value.name);
  }
  // Constants are the other program's own.
  return readConstants(*session, options.evalConstants,
                       [](const ValueInfo &value) { return value.role == RoleKind::Constant; });
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

llvm::Error Evaluation::copyWeights(Session &from) {
  for (const ValueInfo &value : other->weights()) {
    if (value.role == RoleKind::Constant)
      continue;
    const ValueInfo &source = *findWeight(training, value);
    bool isSame = haveSamePlacements(value, source);
    if (isSame && !session->hasWeight(value.name))
      continue;
    llvm::Expected<ConstTensorRef> held = from.result(source.fileName);
    if (!held)
      return held.takeError();
    WholeTensor joined;
    bool isJoined = !isSame && !source.placements.empty();
    if (isJoined)
      if (llvm::Error error = assemble(source, *held, from.grid()).moveInto(joined))
        return error;
    if (!session->hasWeight(value.name))
      continue;
    llvm::Expected<TensorRef> target = session->weight(value.name);
    if (!target)
      return target.takeError();
    if (isSame)
      std::memcpy(target->data, held->data, target->bytes().size());
    else
      readPart(value, isJoined ? joined.ref() : *held, session->grid(), *target);
  }
  return llvm::Error::success();
}

llvm::Expected<double> Evaluation::run(Session &from, int64_t step) {
  if (session)
    if (llvm::Error error = copyWeights(from))
      return error;
  Session &evaluated = session ? *session : from;
  // The gradients of a program that makes them, too, are not used.
  if (targets)
    if (llvm::Error error =
            evaluated.setLossSeeds(std::vector<double>(microbatches, 1.0 / double(microbatches))))
      return error;
  double sum = 0;
  int64_t count = 0;
  int64_t total = int64_t(data->countSteps());
  for (int64_t begin = 0; begin < total; begin += part.count * microbatches) {
    // All ranks run as many microbatches; where the data ends, some again that do not count.
    auto numberOf = [&](int64_t index) { return begin + part.index * microbatches + index; };
    std::vector<int64_t> order;
    auto fill = [&](int64_t index) -> llvm::Error {
      llvm::Expected<std::vector<HostTensor>> tensors = data->read({numberOf(index) % total, 0, 0});
      return tensors ? fillInputs(evaluated, *tensors) : tensors.takeError();
    };
    auto done = [&](int64_t index) {
      order.push_back(index);
      return evaluated.noteLoss();
    };
    if (llvm::Error error = evaluated.runMicrobatches(step, fill, done))
      return error;
    llvm::Expected<std::vector<double>> losses = evaluated.takeLosses();
    if (!losses)
      return losses.takeError();
    for (auto [index, loss] : llvm::zip_equal(order, *losses))
      if (numberOf(index) < total) {
        llvm::Expected<int64_t> weight = weigh(numberOf(index));
        if (!weight)
          return weight.takeError();
        // A microbatch without a target that counts has no loss.
        if (*weight > 0)
          sum += loss * double(*weight);
        count += *weight;
      }
  }
  return average(sum, count);
}

llvm::Expected<int64_t> Evaluation::weigh(int64_t number) const {
  if (!targets)
    return 1;
  llvm::Expected<std::vector<HostTensor>> tensors = data->read({number, 0, 0});
  if (!tensors)
    return tensors.takeError();
  return countTargets(*targets, *tensors);
}

/// The mean over what counts in all parts of the data.
llvm::Expected<double> Evaluation::average(double sum, int64_t count) const {
  struct Message {
    int64_t part, count;
    double sum;
  } mine{part.index, count, sum};
  auto all = world.allGatherBytes({reinterpret_cast<const char *>(&mine), sizeof mine},
                                  "the loss of the evaluation");
  if (!all)
    return all.takeError();
  llvm::BitVector seen(part.count);
  double total = 0;
  int64_t countOfAll = 0;
  for (const std::string &bytes : *all) {
    Message theirs{-1, 0, 0};
    if (bytes.size() == sizeof theirs)
      std::memcpy(&theirs, bytes.data(), sizeof theirs);
    // Ranks without the loss have none; ranks with the same part of the data have the same.
    if (theirs.count == 0 || theirs.part < 0 || theirs.part >= part.count || seen.test(theirs.part))
      continue;
    seen.set(theirs.part);
    total += theirs.sum;
    countOfAll += theirs.count;
  }
  return total / double(countOfAll);
}

std::string Evaluation::describe() const {
  return llvm::formatv("evaluation: {0}; {1} microbatches of {2}", data->describe(),
                       data->countSteps(), microbatchSize)
      .str();
}
