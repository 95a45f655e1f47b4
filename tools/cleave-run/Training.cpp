//===- Training.cpp - cleave-run's training mode --------------------------===//

#include "tools/cleave-run/Training.h"
#include "cleave/Session.h"
#include "runtime/io/Error.h"
#include "runtime/launch/Job.h"
#include "runtime/train/Train.h"
#include "tools/cleave-run/CompareTraining.h"
#include <algorithm>
#include <thread>

using namespace cleave;
using namespace cleave::runtime;
namespace cl = llvm::cl;

cl::OptionCategory run::trainingCategory("Training (many steps on data)");
cl::OptionCategory run::dataCategory("Data");
cl::OptionCategory run::reportingCategory("Reporting");
cl::OptionCategory run::checkpointCategory("Checkpoints");
cl::OptionCategory run::ranksCategory("Ranks");

static cl::opt<int64_t> steps("steps",
                              cl::desc("Train for so many steps, those before --resume included"),
                              cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<int64_t>
    microbatches("microbatches",
                 cl::desc("Microbatches that each rank runs in a step (default: 1)"),
                 cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<int64_t>
    batch("batch", cl::desc("Examples in a step, over all ranks, in place of --microbatches"),
          cl::value_desc("n"), cl::cat(run::trainingCategory));
static cl::opt<double> learningRate("lr", cl::desc("Another base learning rate than the program's"),
                                    cl::value_desc("x"), cl::cat(run::trainingCategory));
static cl::opt<bool> stopOnNan("stop-on-nan",
                               cl::desc("End with an error when the loss is not finite"),
                               cl::cat(run::trainingCategory));

static cl::opt<std::string>
    data("data",
         cl::desc("text:PATH (bytes as tokens), u16:PATH or u32:PATH (tokens), or "
                  "safetensors:PATH (batches); paths separated by commas"),
         cl::value_desc("kind:path"), cl::cat(run::dataCategory));
static cl::opt<bool> shuffle("shuffle",
                             cl::desc("Draw windows of tokens in an order that --seed chooses"),
                             cl::init(true), cl::cat(run::dataCategory));
static cl::opt<int64_t>
    vocabulary("vocabulary", cl::desc("Tokens must be below it (default: rows of the embedding)"),
               cl::value_desc("n"), cl::cat(run::dataCategory));

static cl::opt<std::string> metrics("metrics", cl::desc("Write a line of JSON a step"),
                                    cl::value_desc("file.jsonl"), cl::cat(run::reportingCategory));
static cl::opt<std::string> tensorboard("tensorboard",
                                        cl::desc("Write TensorBoard events to a directory"),
                                        cl::value_desc("directory"),
                                        cl::cat(run::reportingCategory));
static cl::opt<std::string> trace("trace",
                                  cl::desc("Write a trace of the ops, for ui.perfetto.dev"),
                                  cl::value_desc("file.json"), cl::cat(run::reportingCategory));
static cl::opt<int64_t> traceSteps("trace-steps",
                                   cl::desc("Steps that the trace covers (default: 10)"),
                                   cl::value_desc("n"), cl::init(10),
                                   cl::cat(run::reportingCategory));
static cl::opt<bool> quiet("quiet", cl::desc("Print warnings and errors only"),
                           cl::cat(run::reportingCategory));

static cl::opt<std::string> checkpoint("checkpoint",
                                       cl::desc("Save the run's state in a directory"),
                                       cl::value_desc("directory"),
                                       cl::cat(run::checkpointCategory));
static cl::opt<int64_t>
    checkpointEvery("checkpoint-every",
                    cl::desc("Steps between checkpoints (default: only at the end)"),
                    cl::value_desc("n"), cl::cat(run::checkpointCategory));
static cl::opt<int64_t> keepLast("keep-last",
                                 cl::desc("Keep only so many checkpoints (default: all)"),
                                 cl::value_desc("n"), cl::cat(run::checkpointCategory));
static cl::opt<bool> resume("resume",
                            cl::desc("Continue from the newest checkpoint, if there is one"),
                            cl::cat(run::checkpointCategory));

static cl::opt<int> ranks("ranks",
                          cl::desc("Start so many ranks here (default: what torchrun, mpirun or "
                                   "srun says, else 1)"),
                          cl::value_desc("n"), cl::cat(run::ranksCategory));
enum class RanksAs { Processes, Threads };
static cl::opt<RanksAs> ranksAs(
    "ranks-as", cl::desc("What the ranks of --ranks are"), cl::init(RanksAs::Processes),
    cl::values(clEnumValN(RanksAs::Processes, "processes", "Child processes (default)"),
               clEnumValN(RanksAs::Threads, "threads", "Threads of this process, for tests")),
    cl::cat(run::ranksCategory));
static cl::opt<double>
    timeout("timeout", cl::desc("Seconds that ranks wait for each other before they give up"),
            cl::value_desc("s"), cl::cat(run::ranksCategory));

template <typename T> static std::optional<T> given(const cl::opt<T> &option) {
  return option.getNumOccurrences() ? std::optional<T>(option.getValue()) : std::nullopt;
}

bool run::isTraining() {
  return steps.getNumOccurrences() || data.getNumOccurrences();
}

llvm::StringRef run::givenTrainingOption() {
  cl::OptionCategory *categories[] = {&trainingCategory, &dataCategory, &reportingCategory,
                                      &checkpointCategory, &ranksCategory};
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && llvm::is_contained(categories, option->Categories.front()))
      return name;
  return {};
}

int64_t run::getMicrobatches() {
  return given(microbatches).value_or(1);
}

static TrainOptions collect(const run::Options &options) {
  TrainOptions result;
  result.weights = options.weights;
  result.steps = steps;
  result.microbatches = given(microbatches);
  result.batch = given(batch);
  result.seed = options.seed;
  result.weightGradients = options.weightGradients;
  result.memoryLimit = options.memoryLimit;
  result.learningRate = given(learningRate);
  result.data = data;
  result.shuffle = shuffle;
  result.vocabulary = given(vocabulary);
  result.metrics = metrics;
  result.tensorboard = tensorboard;
  result.trace = trace;
  result.traceSteps = traceSteps;
  result.quiet = quiet;
  result.checkpoint = checkpoint;
  result.checkpointEvery = checkpointEvery;
  result.keepLast = keepLast;
  result.resume = resume;
  result.stopOnNan = stopOnNan;
  return result;
}

int run::runTraining(const Options &options) {
  JobOptions job;
  job.ranks = given(ranks);
  job.asThreads = ranksAs == RanksAs::Threads;
  if (timeout.getNumOccurrences())
    job.timeout = std::chrono::milliseconds(int64_t(std::min<double>(timeout, 1e9) * 1000));
  TrainOptions trainOptions = collect(options);
  return runJob(job, [&](Communicator &world, const RankEnvironment &environment) -> llvm::Error {
    installCachingAllocator();
    // Ranks of one machine share its cores.
    int cores = std::max(1u, std::thread::hardware_concurrency());
    int share = std::max(1, cores / environment.localSize);
    if (options.threads || environment.localSize > 1)
      setNumThreads(options.threads ? options.threads : share);
    auto program = loadProgram(options.program);
    if (!program)
      return program.takeError();
    if (!options.against.empty())
      return compareTraining(**program, world, trainOptions, options);
    return train(**program, world, trainOptions);
  });
}
