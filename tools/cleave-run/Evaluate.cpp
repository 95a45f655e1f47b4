//===- Evaluate.cpp - one run of a program on given inputs -------------------===//

#include "tools/cleave-run/Evaluate.h"
#include "runtime/exec/Compare.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/GatherStages.h"
#include "runtime/ranks/StageMap.h"
#include "runtime/session/BatchFile.h"
#include "runtime/session/TensorFiles.h"
#include "runtime/train/Agreement.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;

static llvm::Error checkInputs(const Program &program, const run::Options &options) {
  if (options.inputs.empty() && !program.inputs().empty())
    return makeError("{0}: expected --inputs FILE: the program takes '{1}' and runs on one "
                     "microbatch of it",
                     program.path(), program.inputs().front().name);
  return llvm::Error::success();
}

/// Where the mean of the loss is over targets, gives the session the shares of the microbatches of
/// `inputs`.
static llvm::Error shareLoss(Session &session, const BatchFile &inputs, int64_t microbatches) {
  llvm::Expected<std::optional<CountedTargets>> targets =
      CountedTargets::find(session.program(), session.grid());
  if (!targets)
    return targets.takeError();
  if (!*targets)
    return llvm::Error::success();
  std::vector<int64_t> counts(microbatches);
  for (int64_t index = 0; index < microbatches; ++index)
    if (llvm::Error error = inputs.count(session, **targets, index).moveInto(counts[size_t(index)]))
      return error;
  return session.setLossSeeds(computeShares(counts));
}

llvm::Expected<std::vector<WholeTensor>> run::runOnce(const Program &program, Communicator &world,
                                                      const Options &options,
                                                      int64_t microbatches) {
  std::string seed = std::to_string(options.seed), check = options.check.isOn ? "replicated" : "";
  if (llvm::Error error = agreeOnProgram(
          world, program, {{"--seed", seed}, {"--check", check}, {"--kernels", options.kernels}},
          options.kernels, options.check.isOn))
    return error;
  if (llvm::Error error = agree(world, checkInputs(program, options), "the options"))
    return error;
  SessionOptions sessionOptions;
  sessionOptions.communicator = &world;
  sessionOptions.device = options.device;
  sessionOptions.nameRanges = options.nameRanges;
  sessionOptions.seed = options.seed;
  sessionOptions.microbatches = microbatches;
  sessionOptions.keepOutputs = microbatches > 1;
  sessionOptions.lossSeed = 1.0 / double(microbatches);
  sessionOptions.weightGradients = options.weightGradients;
  sessionOptions.kernels = options.kernels;
  sessionOptions.check = options.check;
  sessionOptions.poisonsDeadMemory = options.poisonsDeadMemory;
  auto session = Session::create(program, sessionOptions);
  std::optional<BatchFile> inputs;
  auto load = [&]() -> llvm::Error {
    if (!session)
      return session.takeError();
    if (!program.weights().empty())
      if (llvm::Error error = loadWeights(**session, options.weights))
        return error;
    if (options.inputs.empty())
      return llvm::Error::success();
    llvm::Expected<BatchFile> file = BatchFile::open(**session, options.inputs, microbatches);
    if (!file)
      return file.takeError();
    inputs = std::move(*file);
    return shareLoss(**session, *inputs, microbatches);
  };
  if (llvm::Error error = agree(world, load(), "the weights and inputs"))
    return error;
  auto fill = [&](int64_t index) {
    return inputs ? inputs->fill(**session, index) : llvm::Error::success();
  };
  auto done = [](int64_t) { return llvm::Error::success(); };
  if (llvm::Error error = (*session)->runMicrobatches(1, fill, done))
    return error;
  return gatherResults(**session);
}

int64_t run::countMicrobatches(const Program &program) {
  return program.schedule() ? program.schedule()->microbatches : 1;
}

/// The mean of what the ranks say that have something to say.
static llvm::Expected<double> average(Communicator &world, std::optional<double> mine) {
  llvm::StringRef message;
  if (mine)
    message = {reinterpret_cast<char *>(&*mine), sizeof *mine};
  auto all = world.allGatherBytes(message, "the loss");
  if (!all)
    return all.takeError();
  double sum = 0;
  int count = 0;
  for (const std::string &bytes : *all) {
    double value;
    if (bytes.size() != sizeof value)
      continue;
    std::copy_n(bytes.data(), sizeof value, reinterpret_cast<char *>(&value));
    sum += value;
    ++count;
  }
  return sum / count;
}

llvm::Error run::evaluate(const Program &program, Communicator &world, const Options &options) {
  // Ranks that hold the stages together have their results on the first of them.
  bool isScheduled = isRunBySchedule(program, &world);
  int64_t together = isScheduled ? program.schedule()->ranks : 1;
  bool isShared = program.isTyped() || world.size() == together;
  if (!isShared && hasTargetMean(program))
    return makeError(
        "{0}: the mean of its loss is over targets, of which each of {1} ranks has its "
        "own: expected one rank, or --evaluate with --data",
        program.path(), world.size());
  // Opened first: what cannot be written need not be computed.
  std::unique_ptr<OutputFile> file;
  if (!options.dump.empty()) {
    llvm::Error error = llvm::Error::success();
    if (world.rank() == 0)
      error = OutputFile::open(options.dump).moveInto(file);
    else if (!isShared)
      error =
          OutputFile::open(options.dump + ".rank" + std::to_string(world.rank())).moveInto(file);
    if (llvm::Error refusal = agree(world, std::move(error), "the dump"))
      return refusal;
  }
  auto results = runOnce(program, world, options, countMicrobatches(program));
  if (!results)
    return results.takeError();
  if (!options.dump.empty()) {
    // Among ranks with the same stages, the first ones have the results.
    bool writes = file && !(isScheduled && results->empty());
    llvm::Error error = writes ? dump(*results, *file) : llvm::Error::success();
    if (llvm::Error refusal = agree(world, std::move(error), "the dump"))
      return refusal;
  }
  bool hasLoss = llvm::any_of(program.outcomes(),
                              [](const ValueInfo &value) { return value.role == RoleKind::Loss; });
  if (!hasLoss)
    return llvm::Error::success();
  std::optional<double> mine;
  for (const WholeTensor &result : *results)
    if (result.name == "loss")
      mine = toNumber(result.ref());
  llvm::Expected<double> loss = isShared ? mine.value_or(0) : average(world, mine);
  if (!loss)
    return loss.takeError();
  if (world.rank() == 0)
    llvm::outs() << "loss " << llvm::format("%.9g", *loss) << "\n";
  return llvm::Error::success();
}
