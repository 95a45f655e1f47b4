//===- Training.cpp - cleave-run's training mode --------------------------===//

#include "tools/cleave-run/Training.h"
#include "cleave/Session.h"
#include "runtime/io/Data.h"
#include "runtime/train/Agreement.h"
#include "runtime/train/Train.h"
#include "runtime/train/TurnOrder.h"
#include "tools/cleave-run/CompareTraining.h"
#include "tools/cleave-run/Interrupts.h"
#include "tools/cleave-run/Ranks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave;
using namespace cleave::runtime;
namespace cl = llvm::cl;

cl::OptionCategory run::trainingCategory("Training (many steps on data)");
cl::OptionCategory run::dataCategory("Data");
cl::OptionCategory run::reportingCategory("Reporting");
cl::OptionCategory run::checkpointCategory("Checkpoints");

static cl::opt<int64_t> steps("steps",
                              cl::desc("Number of training steps, including those before --resume"),
                              cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<int64_t> microbatches("microbatches",
                                     cl::desc("Microbatches per rank and step (default: 1)"),
                                     cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<int64_t>
    batch("batch", cl::desc("Examples per step over all ranks, instead of --microbatches"),
          cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<double> learningRate("lr", cl::desc("Base learning rate, instead of the program's"),
                                    cl::value_desc("x"), cl::cat(run::trainingCategory));
static cl::opt<double>
    learningRateScale("lr-scale",
                      cl::desc("Factor for the base learning rates of all parameter groups"),
                      cl::value_desc("x"), cl::cat(run::trainingCategory));
static cl::list<std::string>
    also("also",
         cl::desc("Another program for the same parameters and optimizer state, such as one for "
                  "another length of sequences, that takes turns: \"FILE [from=STEP | share=X] "
                  "[data=SOURCE] [microbatches=M | batch=B]\"; once for each"),
         cl::value_desc("program"), cl::cat(run::trainingCategory));
static cl::opt<bool> stopOnNan("stop-on-nan",
                               cl::desc("Stop with an error if the loss is not finite"),
                               cl::cat(run::trainingCategory));

enum class Graphs { Default, On, Off };
static cl::opt<Graphs> graphs(
    "graphs",
    cl::desc("On a device: record a step as a graph and replay it, if program and options allow it "
             "(default: on)"),
    cl::values(clEnumValN(Graphs::On, "on", ""), clEnumValN(Graphs::Off, "off", ""),
               clEnumValN(Graphs::On, "", "")),
    cl::ValueOptional, cl::init(Graphs::Default), cl::cat(run::trainingCategory));

static cl::opt<std::string> data(
    "data",
    cl::desc("text:PATH (bytes as tokens), u16:PATH or u32:PATH (tokens), or "
             "safetensors:PATH (batches); files, directories or patterns, separated by commas; "
             "or mix:WEIGHT=SOURCE;WEIGHT=SOURCE..."),
    cl::value_desc("source"), cl::cat(run::dataCategory));
static cl::opt<std::string>
    evalData("eval-data", cl::desc("Compute the loss on this data, too, without an update"),
             cl::value_desc("source"), cl::cat(run::dataCategory));
static cl::opt<int64_t> evalEvery("eval-every",
                                  cl::desc("Steps between evaluations (default: only at the end)"),
                                  cl::value_desc("n"), cl::cat(run::dataCategory));
static cl::opt<int64_t>
    earlyStoppingPatience("early-stopping-patience",
                          cl::desc("End after this many evaluations in a row without a lower loss"),
                          cl::value_desc("n"), cl::cat(run::dataCategory));
static cl::opt<std::string>
    evalProgram("eval-program",
                cl::desc("Program of the same module in evaluation mode, for --eval-data (default: "
                         "the program itself)"),
                cl::value_desc("program.mlir"), cl::cat(run::dataCategory));
enum class Evaluated { Parameters, Averages };
static cl::opt<Evaluated> evalWith(
    "eval-with", cl::desc("Weights to compute the loss on --eval-data with:"),
    cl::values(clEnumValN(Evaluated::Parameters, "parameters", "the trained ones (default)"),
               clEnumValN(Evaluated::Averages, "ema", "their moving averages")),
    cl::init(Evaluated::Parameters), cl::cat(run::dataCategory));
static cl::opt<bool> evaluateData("evaluate",
                                  cl::desc("Print the loss over all of --data, without training"),
                                  cl::cat(run::dataCategory));
static cl::opt<bool>
    shuffle("shuffle", cl::desc("Draw windows of tokens in random order, determined by --seed"),
            cl::init(true), cl::cat(run::dataCategory));
static cl::opt<std::string> documents(
    "documents",
    cl::desc(
        "The token that ends a document, and what inputs are made of the documents in a window: "
        "end=TOKEN INPUT=positions|ids|mask|tokens|ones|within ..."),
    cl::value_desc("what"), cl::cat(run::dataCategory));
static cl::opt<int64_t>
    vocabulary("vocabulary", cl::desc("Upper bound of tokens (default: rows of the embedding)"),
               cl::value_desc("n"), cl::cat(run::dataCategory));

static cl::opt<std::string> metrics("metrics", cl::desc("Write one line of JSON per step"),
                                    cl::value_desc("file.jsonl"), cl::cat(run::reportingCategory));
static cl::opt<std::string> tensorboard("tensorboard",
                                        cl::desc("Write TensorBoard events to this directory"),
                                        cl::value_desc("directory"),
                                        cl::cat(run::reportingCategory));
static cl::opt<std::string> trace("trace", cl::desc("Write a trace of ops, for ui.perfetto.dev"),
                                  cl::value_desc("file.json"), cl::cat(run::reportingCategory));
static cl::opt<int64_t> traceSteps("trace-steps",
                                   cl::desc("Number of steps to trace (default: 10)"),
                                   cl::value_desc("n"), cl::init(10),
                                   cl::cat(run::reportingCategory));
static cl::opt<std::string>
    profile("profile",
            cl::desc("Write measured durations of stages and transfers, for cleave-sim --profile"),
            cl::value_desc("file.json"), cl::cat(run::reportingCategory));
static cl::opt<int64_t>
    profileSkip("profile-skip", cl::desc("Warm-up steps to leave out of the profile (default: 2)"),
                cl::value_desc("n"), cl::init(2), cl::cat(run::reportingCategory));
static cl::opt<std::string>
    status("status", cl::desc("Keep a JSON file about the run, for python -m cleave.status_page"),
           cl::value_desc("file.json"), cl::cat(run::reportingCategory));
static cl::opt<double>
    peakFlops("peak-flops",
              cl::desc("Floating-point operations per second of a rank's device, to report "
                       "how much of them is used (MFU)"),
              cl::value_desc("x"), cl::cat(run::reportingCategory));
static cl::opt<bool> quiet("quiet", cl::desc("Print warnings and errors only"),
                           cl::cat(run::reportingCategory));

static cl::opt<std::string>
    checkpoint("checkpoint",
               cl::desc("Save checkpoints in this directory, at the end and "
                        "on SIGTERM and SIGINT"),
               cl::value_desc("directory"), cl::cat(run::checkpointCategory));
static cl::opt<int64_t>
    checkpointEvery("checkpoint-every",
                    cl::desc("Steps between checkpoints (default: only at the end)"),
                    cl::value_desc("n"), cl::cat(run::checkpointCategory));
static cl::opt<int64_t> keepLast("keep-last",
                                 cl::desc("Number of checkpoints to keep (default: all)"),
                                 cl::value_desc("n"), cl::cat(run::checkpointCategory));
static cl::opt<bool> resume("resume", cl::desc("Resume from the latest checkpoint, if any"),
                            cl::cat(run::checkpointCategory));

static cl::opt<bool> keepBest(
    "keep-best",
    cl::desc("Save and keep the checkpoint with the lowest evaluation loss, too, as `best`"),
    cl::cat(run::checkpointCategory));

enum class Change { Data, Batch, Rates };
static cl::list<Change>
    continueWith("continue-with", cl::desc("Let --resume continue a run with other:"),
                 cl::CommaSeparated,
                 cl::values(clEnumValN(Change::Data, "data", "data, or its order"),
                            clEnumValN(Change::Batch, "batch", "examples in a step"),
                            clEnumValN(Change::Rates, "lr", "learning rates")),
                 cl::cat(run::checkpointCategory));

template <typename T> static std::optional<T> given(const cl::opt<T> &option) {
  return option.getNumOccurrences() ? std::optional<T>(option.getValue()) : std::nullopt;
}

bool run::isTraining() {
  return steps.getNumOccurrences() || data.getNumOccurrences() || evaluateData;
}

llvm::StringRef run::givenTrainingOption(bool takesMicrobatches) {
  cl::OptionCategory *categories[] = {&trainingCategory, &dataCategory, &reportingCategory,
                                      &checkpointCategory};
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && llvm::is_contained(categories, option->Categories.front()) &&
        !(takesMicrobatches && option == &microbatches))
      return name;
  return {};
}

int64_t run::getMicrobatches() {
  return given(microbatches).value_or(1);
}

static TrainOptions collect(const run::Options &options) {
  TrainOptions result;
  result.device = options.device;
  result.recordGraphs = graphs == Graphs::On || (graphs == Graphs::Default && options.device);
  result.nameRanges = options.nameRanges;
  result.weights = options.weights;
  result.steps = steps;
  result.microbatches = given(microbatches);
  result.batch = given(batch);
  result.seed = options.seed;
  result.check = options.check;
  result.poisonsDeadMemory = options.poisonsDeadMemory;
  result.weightGradients = options.weightGradients;
  result.kernels = options.kernels;
  result.memoryLimit = options.memoryLimit;
  result.learningRate = given(learningRate);
  result.learningRateScale = given(learningRateScale);
  result.data = evaluateData ? std::string() : data.getValue();
  result.also.assign(also.begin(), also.end());
  result.evalData = (evaluateData ? data : evalData).getValue();
  result.evalEvery = evalEvery;
  result.evaluatesAverages = evalWith == Evaluated::Averages;
  result.earlyStoppingPatience = given(earlyStoppingPatience);
  result.evalProgram = evalProgram;
  llvm::SmallString<128> constants(evalProgram);
  llvm::sys::path::replace_extension(constants, "safetensors");
  result.evalConstants = constants.str();
  result.evaluatesOnly = evaluateData;
  result.shuffle = shuffle;
  result.documents = documents;
  result.vocabulary = given(vocabulary);
  result.metrics = metrics;
  result.tensorboard = tensorboard;
  result.status = status;
  result.peakFlops = given(peakFlops);
  result.trace = trace;
  result.traceSteps = traceSteps;
  result.profile = profile;
  result.profileSkip = profileSkip;
  result.quiet = quiet;
  result.checkpoint = checkpoint;
  result.checkpointEvery = checkpointEvery;
  result.keepLast = keepLast;
  result.resume = resume;
  result.keepBest = keepBest;
  result.changesData = llvm::is_contained(continueWith, Change::Data);
  result.changesBatch = llvm::is_contained(continueWith, Change::Batch);
  result.changesRates = llvm::is_contained(continueWith, Change::Rates);
  result.stopOnNan = stopOnNan;
  if (!checkpoint.empty())
    result.pendingSignal = run::getNotedSignal;
  return result;
}

std::vector<NamedPath> run::listTrainingInputs() {
  std::vector<NamedPath> inputs;
  for (const cl::opt<std::string> *option : {&data, &evalData})
    for (const std::string &path : listDataPaths(*option))
      inputs.push_back({("--" + option->ArgStr).str(), path});
  for (const std::string &text : also)
    if (llvm::Expected<OtherProgram> other = parseOtherProgram(text)) {
      inputs.push_back({"--also", other->path});
      for (const std::string &path : listDataPaths(other->data))
        inputs.push_back({"--also", path});
    } else {
      llvm::consumeError(other.takeError()); // refused later
    }
  if (!evalProgram.empty())
    inputs.push_back({"--eval-program", evalProgram});
  return inputs;
}

std::vector<NamedPath> run::listTrainingOutputs() {
  std::vector<NamedPath> outputs;
  for (const cl::opt<std::string> *option :
       {&metrics, &tensorboard, &trace, &profile, &checkpoint, &status})
    if (!option->empty())
      outputs.push_back({("--" + option->ArgStr).str(), option->getValue()});
  return outputs;
}

/// What has no meaning where nothing is trained.
static llvm::Error checkEvaluating(const run::Options &options) {
  if (data.empty())
    return makeError("expected --data with --evaluate: what to compute the loss on");
  if (!options.against.empty())
    return makeError("expected --evaluate without --against");
  cl::OptionCategory *categories[] = {&run::trainingCategory, &run::dataCategory,
                                      &run::reportingCategory, &run::checkpointCategory};
  const cl::Option *heeded[] = {&data,         &evaluateData, &documents,
                                &microbatches, &vocabulary,   &quiet};
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && !llvm::is_contained(heeded, option) &&
        llvm::is_contained(categories, option->Categories.front()))
      return makeError("expected --evaluate without --{0}, which is for training", name);
  return llvm::Error::success();
}

/// What belongs to other modes, or is missing.
static llvm::Error checkMode(const run::Options &options) {
  for (auto [option, path] :
       {std::pair("--inputs", options.inputs), std::pair("--dump", options.dump)})
    if (!path.empty())
      return makeError("{0} is for evaluating a program once; training (--steps, --data) reads "
                       "--data and saves to --checkpoint",
                       option);
  if (evaluateData)
    return checkEvaluating(options);
  if (!also.empty() && !options.against.empty())
    return makeError("--against compares two programs: expected it without --also");
  if (evalData.empty() && (evalEvery.getNumOccurrences() || evalProgram.getNumOccurrences() ||
                           evalWith.getNumOccurrences()))
    return makeError("--eval-every, --eval-program and --eval-with need --eval-data SOURCE");
  if (!steps.getNumOccurrences())
    return makeError("expected --steps N with --data: how many steps to train for");
  return llvm::Error::success();
}

int run::runTraining(const Options &options) {
  if (llvm::Error error = checkMode(options)) {
    llvm::WithColor::error(llvm::errs(), "cleave-run") << llvm::toString(std::move(error)) << "\n";
    return EXIT_FAILURE;
  }
  bool isInterruptible = !checkpoint.empty();
  auto body = [=](Communicator &world, const Options &options) -> llvm::Error {
    if (isInterruptible)
      noteSignals();
    TrainOptions trainOptions = collect(options);
    if (evaluateData && world.rank() == 0)
      trainOptions.onEvaluated = [](double loss) {
        llvm::outs() << "loss " << llvm::format("%.9g", loss) << "\n";
        llvm::outs().flush();
      };
    auto program = loadProgram(options.program, {world.rank(), world.size()});
    llvm::Error failure = program ? llvm::Error::success() : program.takeError();
    if (llvm::Error error = agree(world, std::move(failure), "the program"))
      return error;
    if (!options.against.empty())
      return compareTraining(**program, world, trainOptions, options);
    return train(**program, world, trainOptions);
  };
  return runOnRanks(options, body, isInterruptible);
}
