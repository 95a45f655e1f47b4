//===- cleave-sim.cpp - simulates and searches pipeline schedules ------------===//
//
// Schedules come from a program, from the library's builders, from files, or from the search.
//
//===----------------------------------------------------------------------===//

#include "Output.h"
#include "PredictRows.h"
#include "Request.h"
#include "StepReport.h"

#include "lib/schedule/model/Text.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"

namespace cl = llvm::cl;
using namespace cleave;
using namespace cleave::sim;

static cl::OptionCategory category("cleave-sim options");
static cl::opt<std::string> programOption(
    cl::Positional, cl::cat(category), cl::value_desc("program.mlir"),
    cl::desc("[program.mlir: a program with stages, and a schedule unless --schedule is given; "
             "with --cluster any program]"));
static cl::opt<std::string> clusterOption(
    "cluster", cl::cat(category), cl::value_desc("file.json|name"),
    cl::desc("Predict the whole step on a cluster, which a file describes, or one with "
             "that name in the folder of --devices"));
static cl::opt<bool> graphsOption(
    "graphs", cl::cat(category),
    cl::desc("Steps are replayed as graphs of the device: launches cost the host nothing"));
static cl::opt<std::string>
    symbolOption("symbol", cl::cat(category), cl::value_desc("name"),
                 cl::desc("Name of the schedule, if the program has several"));
static cl::list<std::string>
    axisOption("axis", cl::cat(category), cl::CommaSeparated, cl::value_desc("dp=N"),
               cl::desc("Size of a mesh axis that the program leaves open"));
static cl::opt<std::string> scheduleOption(
    "schedule", cl::cat(category), cl::value_desc("name|file"),
    cl::desc("Name of a schedule, 'auto' (search), or a file in text or PyTorch's CSV form"));
static cl::list<std::string> compareOption("compare", cl::cat(category), cl::CommaSeparated,
                                           cl::value_desc("a,b,c"),
                                           cl::desc("Compare several schedules"));
static cl::opt<unsigned> ranksOption("ranks", cl::cat(category), cl::init(0),
                                     cl::desc("Number of pipeline ranks"));
static cl::opt<unsigned> microbatchesOption("microbatches", cl::cat(category), cl::init(0),
                                            cl::desc("Microbatches per step"));
static cl::opt<unsigned> chunksOption("chunks", cl::cat(category), cl::init(0),
                                      cl::desc("Stages per rank (default: the schedule's)"));
static cl::opt<std::string> topologyOption("topology", cl::cat(category), cl::value_desc("loop|v"),
                                           cl::desc("Placement of stages on ranks"));
static cl::opt<std::string> costsOption(
    "costs", cl::cat(category), cl::value_desc("F,B,W,COMM"),
    cl::desc(
        "Durations of a stage's forward, input gradient and weight gradient, and of a transfer; "
        "with --compare, for the largest number of chunks compared"));
static cl::opt<std::string> costFileOption("cost-table", cl::cat(category),
                                           cl::value_desc("file.json"),
                                           cl::desc("Costs per stage, from cleave-run --profile"));
static cl::alias profileOption("profile", cl::desc("Alias of --cost-table"),
                               cl::aliasopt(costFileOption));
static cl::opt<std::string>
    memoryOption("activation-memory", cl::cat(category), cl::value_desc("F,B,W"),
                 cl::desc("Memory that a stage's forward allocates and its gradients release"));
static cl::opt<std::string> limitOption("memory-limit", cl::cat(category), cl::value_desc("X"),
                                        cl::desc("Activation memory limit per rank"));
static cl::opt<std::string> objectiveOption(
    "objective", cl::cat(category), cl::value_desc("span|makespan"), cl::init("span"),
    cl::desc("Objective of 'auto': the largest span of a rank, or the makespan; the makespan "
             "is never above that of a named schedule that fits"));
static cl::opt<double> effortOption("effort", cl::cat(category), cl::init(1),
                                    cl::desc("Search effort of 'auto' (1: a few seconds)"));
static cl::opt<unsigned> seedOption("seed", cl::cat(category), cl::init(1),
                                    cl::desc("Random seed of 'auto'"));
static cl::opt<std::string> transfersOption(
    "transfers", cl::cat(category), cl::value_desc("implied|gloo|nccl"), cl::init("implied"),
    cl::desc(
        "implied: a transfer starts when its data and the link are ready; gloo, nccl: sends and "
        "receives are inserted, and matched as the backend does"));
static cl::opt<bool> jsonOption("json", cl::cat(category), cl::desc("Print JSON"));
static cl::opt<std::string> traceOption("trace", cl::cat(category), cl::value_desc("file"),
                                        cl::desc("Write a trace for Perfetto"));
static cl::opt<std::string> htmlOption("html", cl::cat(category), cl::value_desc("file"),
                                       cl::desc("Write the timeline as an HTML page"));
static cl::opt<std::string>
    measuredOption("measured", cl::cat(category), cl::value_desc("file.json"),
                   cl::desc("Compare the prediction with the step measured in a profile of the "
                            "same schedule"));
static cl::list<std::string>
    pluginOption("load-pass-plugin", cl::cat(category), cl::CommaSeparated,
                 cl::value_desc("file.so"),
                 cl::desc("Load custom schedules from a plugin, as in cleave-opt"));
static cl::opt<std::string> outputOption("o", cl::cat(category), cl::value_desc("file"),
                                         cl::desc("Write the schedule in text form"));

/// The program on the command line; nothing if there is none.
static llvm::Expected<std::optional<ProgramFile>> readProgram() {
  if (programOption.empty()) {
    if (symbolOption.getNumOccurrences() || axisOption.getNumOccurrences())
      return cleave::makeError("--{0} expects a program, found none",
                               symbolOption.getNumOccurrences() ? "symbol" : "axis");
    return std::nullopt;
  }
  ProgramRequest request;
  request.path = programOption;
  request.symbol = symbolOption;
  request.wantsTimes = clusterOption.getNumOccurrences() > 0;
  request.ranks = ranksOption;
  bool names = scheduleOption.getNumOccurrences() || compareOption.getNumOccurrences();
  request.takesUnstaged = request.wantsTimes && !names;
  request.wantsSchedule = !names;
  for (llvm::StringRef text : axisOption) {
    auto [name, size] = text.split('=');
    int64_t &value = request.axisSizes[name];
    if (name.empty() || size.getAsInteger(10, value) || value < 1)
      return cleave::makeError("--axis: expected NAME=RANKS, found '{0}'", text);
  }
  auto program = readProgramFile(request);
  if (!program)
    return program.takeError();
  return std::optional<ProgramFile>(std::move(*program));
}

/// Costs from --cluster. A program without stages runs its microbatches one after another.
static llvm::Error readClusterCosts(Request &request) {
  if (!request.program || request.program->work.stages.empty())
    return cleave::makeError("--cluster expects a program, found none");
  auto cluster = readCluster(clusterOption);
  if (!cluster)
    return cluster.takeError();
  const simulate::ProgramWork &work = request.program->work;
  cluster->devices = work.devices;
  if (llvm::Error error = simulate::checkWidth(*cluster, work))
    return error;
  if (llvm::Error error = simulate::checkHostLink(*cluster, work))
    return error;
  if (!request.program->isStaged) {
    if (request.ranks > 1)
      return cleave::makeError("--ranks: expected 1 for a program without stages, found {0}",
                               request.ranks);
    request.ranks = 1;
    request.microbatches = std::max(request.microbatches, 1u);
  }
  request.runOptions.usesGraphs = graphsOption;
  request.runOptions.simulation.model =
      transfersOption == "nccl" ? schedule::CommModel::nccl() : schedule::CommModel::gloo();
  request.runOptions.schedulesReductions =
      request.program->schedule && simulate::hasReductions(*request.program->schedule);
  request.stageTimes = simulate::timeStages(*cluster, work, request.runOptions);
  request.costs = simulate::costsOfStages(*cluster, work, request.stageTimes);
  request.cluster = std::move(*cluster);
  return llvm::Error::success();
}

static llvm::Expected<Request> readOptions() {
  Request request;
  request.ranks = ranksOption;
  request.microbatches = microbatchesOption;
  if (chunksOption.getNumOccurrences()) {
    if (chunksOption == 0)
      return cleave::makeError("--chunks: expected 1 or more, found 0");
    request.chunks = chunksOption;
  }
  if (topologyOption.getNumOccurrences()) {
    request.topology = schedule::parseTopologyStyle(topologyOption);
    if (!request.topology)
      return cleave::makeError("--topology: expected 'loop' or 'v', found '{0}'",
                               topologyOption.getValue());
  }
  llvm::Expected<std::optional<ProgramFile>> program = readProgram();
  if (!program)
    return program.takeError();
  request.program = std::move(*program);
  if (bool(costsOption.getNumOccurrences()) + bool(costFileOption.getNumOccurrences()) +
          bool(clusterOption.getNumOccurrences()) >
      1)
    return cleave::makeError("--costs, --cost-table and --cluster are mutually exclusive");
  bool hasStages = request.program && !request.program->work.stages.empty();
  request.isMilliseconds = clusterOption.getNumOccurrences() || costFileOption.getNumOccurrences();
  if (clusterOption.getNumOccurrences()) {
    if (llvm::Error error = readClusterCosts(request))
      return std::move(error);
  } else if (graphsOption) {
    return cleave::makeError("--graphs expects --cluster");
  } else if (costsOption.getNumOccurrences()) {
    auto costs = simulate::parseCosts(costsOption);
    if (!costs)
      return cleave::makeError("--costs: {0}", llvm::toString(costs.takeError()));
    request.costs = std::move(*costs);
  } else if (costFileOption.getNumOccurrences()) {
    auto costs = simulate::readCostFile(costFileOption);
    if (!costs)
      return costs.takeError();
    request.costs = std::move(*costs);
  } else if (hasStages) {
    return cleave::makeError("{0} has stages: expected their costs as "
                             "--cluster=FILE, --profile=FILE or --costs=F,B,W,COMM",
                             programOption.getValue());
  }
  bool isProgramsMemory = hasStages && !request.costs.hasMemory();
  request.isBytes = isProgramsMemory || clusterOption.getNumOccurrences();
  if (isProgramsMemory)
    if (llvm::Error error = simulate::setMemory(request.costs, request.program->work.stages))
      return cleave::makeError("{0}: {1}", programOption.getValue(),
                               llvm::toString(std::move(error)));
  if (memoryOption.getNumOccurrences()) {
    request.isBytes = false;
    if (llvm::Error error = simulate::parseActivationMemory(memoryOption, request.costs))
      return cleave::makeError("--activation-memory: {0}", llvm::toString(std::move(error)));
  }
  if (limitOption.getNumOccurrences()) {
    if (llvm::StringRef(limitOption).getAsDouble(request.memoryLimit) || !(request.memoryLimit > 0))
      return cleave::makeError("--memory-limit: expected a positive number, found '{0}'",
                               limitOption.getValue());
    if (!request.costs.hasMemory())
      return cleave::makeError("--memory-limit needs --activation-memory, or a cost table with "
                               "memory");
  }
  if (objectiveOption != "span" && objectiveOption != "makespan")
    return cleave::makeError("--objective: expected 'span' or 'makespan', found '{0}'",
                             objectiveOption.getValue());
  request.spanFirst = objectiveOption == "span";
  if (!(effortOption >= 0) || effortOption > 1e6)
    return cleave::makeError("--effort: expected a number from 0 to 1000000, found {0}",
                             effortOption.getValue());
  request.effort = effortOption;
  request.seed = seedOption;
  if (transfersOption != "implied" && transfersOption != "gloo" && transfersOption != "nccl")
    return cleave::makeError("--transfers: expected 'implied', 'gloo' or 'nccl', found '{0}'",
                             transfersOption.getValue());
  request.transfers = transfersOption;
  return request;
}

/// Loads modules, and has each register its schedules, as MLIR's tools do with passes.
static llvm::Error loadPlugins() {
  for (llvm::StringRef file : pluginOption) {
    // A name without a directory would be looked for among the system's libraries.
    llvm::SmallString<256> path(file);
    if (std::error_code code = llvm::sys::fs::make_absolute(path))
      return cleave::makeError("--load-pass-plugin: {0}: {1}", file, code.message());
    std::string message;
    auto library = llvm::sys::DynamicLibrary::getPermanentLibrary(path.c_str(), &message);
    if (!library.isValid())
      return cleave::makeError("--load-pass-plugin: {0}", message);
    auto getInfo = reinterpret_cast<decltype(mlirGetPassPluginInfo) *>(
        library.getAddressOfSymbol("mlirGetPassPluginInfo"));
    if (!getInfo)
      return cleave::makeError("--load-pass-plugin: {0}: expected a plugin with the function "
                               "mlirGetPassPluginInfo, found none",
                               file);
    mlir::PassPluginLibraryInfo info = getInfo();
    if (info.apiVersion != MLIR_PLUGIN_API_VERSION || !info.registerPassRegistryCallbacks)
      return cleave::makeError("--load-pass-plugin: {0}: expected a plugin of version {1} that "
                               "registers something, found version {2}",
                               file, MLIR_PLUGIN_API_VERSION, info.apiVersion);
    info.registerPassRegistryCallbacks();
  }
  return llvm::Error::success();
}

/// Adds the prediction of the whole step to a run of the program's stages.
static llvm::Error addStep(const Request &request, Run &run) {
  const simulate::ProgramWork &work = request.program->work;
  if (run.program.numStages() != work.stages.size())
    return cleave::makeError(
        "--cluster: expected a schedule of the program's {0} stages, found one "
        "of {1}; --compare takes such schedules",
        work.stages.size(), run.program.numStages());
  auto report = makeStepReport(*request.cluster, work, run, request.runOptions);
  if (!report)
    return report.takeError();
  report->readSeconds = request.program->readSeconds;
  report->measureSeconds = request.program->measureSeconds;
  run.step = std::make_shared<const StepReport>(std::move(*report));
  if (work.hasHostCopies)
    for (unsigned rank = 0; rank < run.program.numRanks(); ++rank)
      run.copies.push_back(
          simulate::listCopies(work, run.program, request.stageTimes, run.timeline, rank));
  return llvm::Error::success();
}

static llvm::Error runTool() {
  if (llvm::Error error = checkRowsOptions(!programOption.empty()))
    return error;
  if (wantsRows())
    return predictRowsOfOptions();
  if (llvm::Error error = loadPlugins())
    return error;
  bool compare = compareOption.getNumOccurrences() > 0;
  bool named = scheduleOption.getNumOccurrences() > 0;
  if (compare && named)
    return cleave::makeError("expected --schedule=NAME or --compare=A,B,..., found both");
  if (!compare && !named && programOption.empty())
    return cleave::makeError(
        "expected a program, --schedule=NAME or --compare=A,B,..., found none of them");
  for (auto *option : {&traceOption, &outputOption, &measuredOption})
    if (compare && option->getNumOccurrences())
      return cleave::makeError("--{0} is for one schedule, not for --compare", option->ArgStr);
  auto request = readOptions();
  if (!request)
    return request.takeError();
  std::vector<std::string> names(compareOption);
  if (named)
    names.push_back(scheduleOption);
  if (names.empty() && request->program && !request->program->isStaged && request->cluster)
    names.push_back("1f1b"); // of one rank: a microbatch after the other
  auto runs = runAll(*request, names);
  if (!runs)
    return runs.takeError();
  if (request->cluster && !compare)
    if (llvm::Error error = addStep(*request, runs->front()))
      return error;
  if (!measuredOption.empty()) {
    auto measured = readMeasured(measuredOption, runs->front().program.numRanks());
    if (!measured)
      return measured.takeError();
    runs->front().measured = std::move(*measured);
  }
  if (jsonOption)
    printJSON(*runs, compare, llvm::outs());
  else
    printText(*runs, llvm::outs());
  const Run &run = runs->front();
  if (!traceOption.empty())
    if (llvm::Error error = writeFile(traceOption, [&](auto &os) { printTrace(run, os); }))
      return error;
  if (!htmlOption.empty())
    if (llvm::Error error = writeFile(htmlOption, [&](auto &os) { printHTML(*runs, os); }))
      return error;
  if (!outputOption.empty())
    return writeFile(outputOption, [&](auto &os) { schedule::printText(run.program, os); });
  return llvm::Error::success();
}

/// A full disk behind the standard output, which LLVM would otherwise end the process over.
static llvm::Error finishOutput() {
  llvm::outs().flush();
  std::error_code code = llvm::outs().error();
  llvm::outs().clear_error();
  return code ? cleave::makeError("cannot write to standard output: {0}", code.message())
              : llvm::Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions({&category, &getRowsCategory()});
  cl::ParseCommandLineOptions(
      argc, argv, "cleave-sim: simulate pipeline schedules, and search for better ones\n");
  llvm::Error error = runTool();
  error = llvm::joinErrors(std::move(error), finishOutput());
  if (error) {
    llvm::errs() << "cleave-sim: error: " << llvm::toString(std::move(error)) << '\n';
    return 1;
  }
  return 0;
}
