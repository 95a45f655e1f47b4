//===- RankStep.cpp - what a step of a program leaves on a rank --------------===//

#include "tools/cleave-run/RankStep.h"
#include "runtime/io/Error.h"
#include "runtime/ranks/GatherStages.h"
#include "runtime/session/BatchFile.h"
#include "runtime/session/TensorFiles.h"
#include "runtime/train/Agreement.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace cleave;
using namespace cleave::runtime;

/// Gives the session the shares of its microbatches of the step's loss, where the mean is over the
/// targets of all ranks.
static llvm::Error shareLoss(Session &session, const BatchFile &inputs, int64_t microbatches,
                             Communicator &world) {
  auto targets = CountedTargets::find(session.program(), session.grid());
  if (!targets)
    return targets.takeError();
  if (!*targets)
    return llvm::Error::success();
  Session::BatchPart part = session.batchPart();
  std::vector<int64_t> mine = {part.index};
  for (int64_t index = 0; index < microbatches; ++index)
    if (llvm::Error error = inputs.count(session, **targets, index).moveInto(mine.emplace_back()))
      return error;
  size_t bytes = mine.size() * sizeof(int64_t);
  auto received = world.allGatherBytes({reinterpret_cast<const char *>(mine.data()), bytes},
                                       "the number of targets");
  if (!received)
    return received.takeError();
  std::vector<int64_t> all(size_t(part.count * microbatches));
  for (const std::string &theirs : *received) {
    std::memcpy(mine.data(), theirs.data(), bytes);
    // Ranks with the same part of the batch have the same targets.
    std::copy(mine.begin() + 1, mine.end(), all.begin() + mine.front() * microbatches);
  }
  std::vector<double> shares = computeShares(all);
  return session.setLossSeeds(
      llvm::ArrayRef(shares).slice(part.index * microbatches, microbatches));
}

/// Optimizer states before the step; without a file they are zeros.
static llvm::Error loadStates(Session &session, const std::string &path) {
  if (path.empty())
    return llvm::Error::success();
  auto file = SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  llvm::ArrayRef<ValueInfo> states = session.program().optimizerStates();
  std::vector<ValueInfo> named;
  for (ValueInfo value : states) {
    value.name = value.fileName;
    named.push_back(std::move(value));
  }
  auto find = [&](const ValueInfo &named) -> const ValueInfo & {
    return *llvm::find_if(states,
                          [&](const ValueInfo &value) { return value.fileName == named.fileName; });
  };
  return readTensors(
      **file, named, session.grid(), "optimizer states",
      [&](const ValueInfo &value) {
        const ValueInfo &state = find(value);
        return session.optimizerState(state.name, state.slot);
      },
      [](llvm::StringRef) { return true; },
      [&](const ValueInfo &value) { return session.hasOptimizerState(find(value).name); });
}

/// Whether each microbatch's gradients of parameters are added to those before.
static bool accumulates(const Program &program) {
  return llvm::any_of(program.arguments(Phase::Microbatch),
                      [](const ValueInfo &value) { return value.role == RoleKind::Accumulator; });
}

/// Adds `more` to `sum`, both of one floating-point type.
template <typename T>
static void addElements(llvm::MutableArrayRef<char> sum, llvm::ArrayRef<char> more) {
  for (size_t at = 0; at < sum.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, &sum[at], sizeof(T));
    std::memcpy(&b, &more[at], sizeof(T));
    a += b;
    std::memcpy(&sum[at], &a, sizeof(T));
  }
}
llvm::Error run::add(WholeTensor &sum, llvm::ArrayRef<char> more) {
  if (sum.bytes.size() != more.size())
    return makeError("'{0}' has another size on other ranks", sum.name);
  if (sum.type.dtype == DType::F64)
    addElements<double>(sum.bytes, more);
  else if (sum.type.dtype == DType::F32)
    addElements<float>(sum.bytes, more);
  else
    return makeError("'{0}' is {1}: terms are added up in F32 and F64 alone", sum.name,
                     sum.type.str());
  return llvm::Error::success();
}

static SessionOptions makeSessionOptions(const run::Options &options, Communicator &world,
                                         int64_t microbatches) {
  SessionOptions result;
  result.communicator = &world;
  result.device = options.device;
  result.seed = options.seed;
  result.microbatches = microbatches;
  result.weightGradients = options.weightGradients;
  result.kernels = options.kernels;
  result.check = options.check;
  result.poisonsDeadMemory = options.poisonsDeadMemory;
  return result;
}

namespace {
/// Runs a step of one program on the ranks of `world`.
class StepOfRank {
public:
  StepOfRank(const Program &program, Communicator &world, const run::Options &options,
             int64_t microbatches, bool listsLosses)
      : program(program), world(world), options(options), microbatches(microbatches),
        listsLosses(listsLosses) {}

  llvm::Expected<run::StepResult> run();

private:
  llvm::Error start();
  llvm::Error noteMicrobatch(int64_t index);
  llvm::Error addResults();
  llvm::Error addReports();
  llvm::Expected<WholeTensor> gatherResult(const ValueInfo &value);
  llvm::Error addGradient(WholeTensor tensor, const ValueInfo &value);
  void addState(std::vector<WholeTensor> tensors) {
    for (WholeTensor &tensor : tensors)
      result.values.push_back({std::move(tensor)});
  }

  const Program &program;
  Communicator &world;
  const run::Options &options;
  int64_t microbatches;
  bool listsLosses;
  std::unique_ptr<Session> session;
  std::optional<BatchFile> inputs;
  run::StepResult result;
  /// By microbatch, of those that this rank has made.
  std::vector<double> losses;
  /// Of programs that leave the sum of gradients over microbatches to their caller.
  std::vector<WholeTensor> sums;
};
} // namespace

llvm::Error StepOfRank::start() {
  SessionOptions sessionOptions = makeSessionOptions(options, world, microbatches);
  sessionOptions.keepOutputs = microbatches > 1 && accumulates(program);
  if (llvm::Error error = Session::create(program, sessionOptions).moveInto(session))
    return error;
  if (!program.weights().empty())
    if (llvm::Error error = loadWeights(*session, options.weights))
      return error;
  if (llvm::Error error = loadStates(*session, options.states))
    return error;
  llvm::Expected<BatchFile> file = BatchFile::open(*session, options.inputs, microbatches);
  if (!file)
    return file.takeError();
  inputs = std::move(*file);
  result.batch = session->batchPart();
  return llvm::Error::success();
}

/// A result as the program of one device has it.
llvm::Expected<WholeTensor> StepOfRank::gatherResult(const ValueInfo &value) {
  llvm::Expected<ConstTensorRef> part = session->result(value.fileName);
  return part ? assemble(value, *part, session->grid()) : part.takeError();
}

/// Called when the loss of a microbatch is made.
llvm::Error StepOfRank::noteMicrobatch(int64_t index) {
  bool hasLoss = llvm::any_of(program.outcomes(),
                              [](const ValueInfo &value) { return value.role == RoleKind::Loss; });
  if (hasLoss && listsLosses) {
    losses.resize(size_t(microbatches));
    losses[size_t(index)] = session->loss();
  }
  if (accumulates(program))
    return llvm::Error::success();
  for (const ValueInfo &value : program.outcomes()) {
    if (value.role != RoleKind::Gradient)
      continue;
    llvm::Expected<WholeTensor> whole = gatherResult(value);
    if (!whole)
      return whole.takeError();
    auto sum = llvm::find_if(sums, [&](const WholeTensor &sum) { return sum.name == whole->name; });
    if (sum == sums.end())
      sums.push_back(std::move(*whole));
    else if (llvm::Error error = run::add(*sum, whole->bytes))
      return error;
  }
  return llvm::Error::success();
}

/// Of a gradient in a bucket of an untyped program, which has been reduced where all its
/// microbatches are in it: nothing where it is a sum over some of the parts of the batch.
static std::optional<run::StepPart> partInBucket(const Program &program, const ValueInfo &value) {
  std::set<llvm::StringRef> batch;
  for (const ValueInfo &input : program.inputs())
    batch.insert(input.over.begin(), input.over.end());
  size_t count = llvm::count_if(value.summedOver,
                                [&](const std::string &axis) { return batch.count(axis) != 0; });
  if (count == batch.size())
    return run::StepPart::Whole;
  return count == 0 ? std::optional(run::StepPart::Term) : std::nullopt;
}

/// A gradient is whole after a reduction, and else the rank's term.
llvm::Error StepOfRank::addGradient(WholeTensor tensor, const ValueInfo &value) {
  auto isIn = [&](llvm::ArrayRef<ValueInfo> values) {
    return llvm::any_of(values, [&](const ValueInfo &other) {
      return other.role == RoleKind::Gradient && other.name == value.name;
    });
  };
  auto weight = llvm::find_if(program.weights(),
                              [&](const ValueInfo &weight) { return weight.name == value.name; });
  if (weight == program.weights().end())
    return llvm::Error::success();
  auto sum = llvm::find_if(sums, [&](const WholeTensor &sum) { return sum.name == tensor.name; });
  if (sum != sums.end())
    tensor = *sum;
  bool isReduced = isIn(program.results(Phase::Reduce)) || result.batch.count == 1;
  std::optional<run::StepPart> part = isReduced ? run::StepPart::Whole : run::StepPart::Term;
  if (!isReduced && !isIn(program.results(Phase::Microbatch)))
    part = partInBucket(program, value);
  // Each rank has a shard of what a bucket scatters.
  if (part && (program.isTyped() || tensor.type.shape == weight->type.shape))
    result.values.push_back({std::move(tensor), *part});
  return llvm::Error::success();
}

/// What the microbatches have left.
llvm::Error StepOfRank::addResults() {
  llvm::Expected<std::vector<WholeTensor>> results = gatherResults(*session);
  if (!results)
    return results.takeError();
  for (WholeTensor &tensor : *results) {
    const ValueInfo &value = *llvm::find_if(
        program.outcomes(), [&](const ValueInfo &value) { return value.fileName == tensor.name; });
    if (value.role == RoleKind::Gradient) {
      if (llvm::Error error = addGradient(std::move(tensor), value))
        return error;
    } else if (value.role == RoleKind::Output && value.batch && accumulates(program)) {
      result.values.push_back({std::move(tensor), run::StepPart::OwnExamples, *value.batch});
    } else if (value.role == RoleKind::Loss && !listsLosses && accumulates(program)) {
      result.values.push_back({std::move(tensor)});
    } else if (value.role == RoleKind::Buffer) {
      result.values.push_back({std::move(tensor), run::StepPart::Buffer});
    }
  }
  if (losses.empty())
    return llvm::Error::success();
  WholeTensor tensor{"loss", {DType::F64, {int64_t(losses.size())}}, {}};
  tensor.bytes.resize(losses.size() * sizeof(double));
  std::memcpy(tensor.bytes.data(), losses.data(), tensor.bytes.size());
  result.values.push_back({std::move(tensor), run::StepPart::OwnExamples, 0});
  return llvm::Error::success();
}

llvm::Expected<run::StepResult> StepOfRank::run() {
  if (llvm::Error error = agree(world, start(), "the weights and inputs"))
    return error;
  if (llvm::Error error =
          agree(world, shareLoss(*session, *inputs, microbatches, world), "the targets"))
    return error;
  if (llvm::Error error = session->runMicrobatches(
          options.wholeStep, [&](int64_t index) { return inputs->fill(*session, index); },
          [&](int64_t index) { return noteMicrobatch(index); }))
    return error;
  if (llvm::Error error = addResults())
    return error;
  if (!program.hasUpdate())
    return std::move(result);
  if (llvm::Error error = session->runUpdate(options.wholeStep))
    return error;
  llvm::Expected<std::vector<WholeTensor>> weights = gatherWeights(*session);
  if (!weights)
    return weights.takeError();
  llvm::erase_if(*weights, [](const WholeTensor &tensor) {
    return llvm::StringRef(tensor.name).starts_with("buffer.");
  });
  addState(std::move(*weights));
  llvm::Expected<std::vector<WholeTensor>> states = gatherOptimizerStates(*session);
  if (!states)
    return states.takeError();
  addState(std::move(*states));
  if (llvm::Error error = addReports())
    return error;
  return std::move(result);
}

/// What an update reports, such as the norm of gradients; not of stages, which report some each.
llvm::Error StepOfRank::addReports() {
  if (session->isScheduled())
    return llvm::Error::success();
  for (const ValueInfo &value : program.results(Phase::Update)) {
    if (value.role != RoleKind::Output)
      continue;
    llvm::Expected<WholeTensor> whole = gatherResult(value);
    if (!whole)
      return whole.takeError();
    result.values.push_back({std::move(*whole)});
  }
  return llvm::Error::success();
}

llvm::Expected<run::StepResult> run::runStep(const Program &program, Communicator &world,
                                             const Options &options, int64_t microbatches,
                                             bool listsLosses) {
  return StepOfRank(program, world, options, microbatches, listsLosses).run();
}

llvm::Expected<std::vector<WholeTensor>> run::runBuffers(const Program &program,
                                                         const Options &options,
                                                         int64_t microbatches,
                                                         Session::BatchPart part) {
  std::unique_ptr<Communicator> alone = makeSingleRankCommunicator();
  SessionOptions sessionOptions = makeSessionOptions(options, *alone, microbatches);
  int64_t all = microbatches * part.count, first = microbatches * part.index;
  sessionOptions.lossSeed = 1.0 / double(all);
  std::unique_ptr<Session> session;
  if (llvm::Error error = Session::create(program, sessionOptions).moveInto(session))
    return error;
  if (!program.weights().empty())
    if (llvm::Error error = loadWeights(*session, options.weights))
      return error;
  llvm::Expected<BatchFile> inputs = BatchFile::open(*session, options.inputs, all);
  if (!inputs)
    return inputs.takeError();
  auto targets = CountedTargets::find(program, session->grid());
  if (!targets)
    return targets.takeError();
  if (*targets) {
    std::vector<int64_t> counts(static_cast<size_t>(all));
    for (int64_t index = 0; index < all; ++index)
      if (llvm::Error error = inputs->count(*session, **targets, index).moveInto(counts[index]))
        return error;
    std::vector<double> shares = computeShares(counts);
    if (llvm::Error error =
            session->setLossSeeds(llvm::ArrayRef(shares).slice(first, microbatches)))
      return error;
  }
  session->setDrawsBefore(((options.wholeStep - 1) * all + first) * program.draws());
  if (llvm::Error error = session->runMicrobatches(
          options.wholeStep, [&](int64_t index) { return inputs->fill(*session, first + index); },
          [](int64_t) { return llvm::Error::success(); }))
    return error;
  llvm::Expected<std::vector<WholeTensor>> results = gatherResults(*session);
  if (results)
    llvm::erase_if(*results, [](const WholeTensor &tensor) {
      return !llvm::StringRef(tensor.name).starts_with("buffer.");
    });
  return results;
}
