// From names to programs to simulations.
#include "Request.h"

#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Text.h"
#include "lib/schedule/model/Verify.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace cleave;
using namespace cleave::sim;
using cleave::makeError;
using schedule::Schedule;

static llvm::Expected<Schedule> readFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError("{0}: {1}", path, buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  auto program =
      path.ends_with(".csv") ? schedule::parseCsv(text, path) : schedule::parseText(text, path);
  if (!program)
    return program;
  schedule::VerifyOptions options;
  options.computeOnly = !program->hasP2P();
  options.maxProblems = 1;
  std::vector<schedule::Problem> problems = schedule::verify(*program, options);
  if (!problems.empty())
    return makeError("{0}: {1}", path, problems.front().str());
  program->name = path.str();
  return program;
}

static llvm::Error expectCounts(const Request &request, llvm::StringRef name) {
  if (request.ranks == 0 || request.microbatches == 0)
    return makeError("schedule '{0}' needs --ranks and --microbatches of 1 or more", name);
  return llvm::Error::success();
}

/// The program of a builder or file; 'auto' is not built here.
static llvm::Expected<Schedule> makeSchedule(const Request &request, llvm::StringRef name,
                                             bool relaxChunks) {
  const schedule::ScheduleBuilder *builder = schedule::ScheduleRegistry::global().find(name);
  if (!builder && llvm::sys::fs::exists(name))
    return readFile(name);
  if (!builder) {
    std::string known = "auto";
    for (const schedule::ScheduleBuilder *each : schedule::ScheduleRegistry::global().all())
      known += ", " + each->name().str();
    return makeError("there is no schedule or file named '{0}'; known schedules: {1}", name, known);
  }
  if (llvm::Error error = expectCounts(request, name))
    return error;
  schedule::BuildRequest build;
  build.ranks = request.ranks;
  build.microbatches = request.microbatches;
  build.chunks = request.chunks;
  build.stages = request.stages;
  build.topology = request.topology;
  auto program = builder->build(build);
  if (program || !relaxChunks || request.stages)
    return program;
  // Compared with others, a schedule that cannot have as many chunks, or that topology, has its
  // own.
  build.chunks = std::nullopt;
  build.topology = std::nullopt;
  auto own = builder->build(build);
  if (!own) {
    llvm::consumeError(own.takeError());
    return program;
  }
  llvm::consumeError(program.takeError());
  return own;
}

static llvm::Error simulateRun(const Request &request, Run &run) {
  schedule::CommModel model =
      request.transfers == "nccl" ? schedule::CommModel::nccl() : schedule::CommModel::gloo();
  if (request.transfers != "implied" && !run.program.hasP2P()) {
    schedule::P2POptions options;
    options.model = model;
    auto program = schedule::insertP2P(run.program, options);
    if (!program)
      return program.takeError();
    run.program = std::move(*program);
  }
  auto timeline = simulate::simulate(run.program, run.costs, {model});
  if (!timeline)
    return timeline.takeError();
  run.timeline = std::move(*timeline);
  run.metrics = simulate::measure(run.program, run.timeline);
  run.memoryLimit = request.memoryLimit;
  return llvm::Error::success();
}

static llvm::Error searchRun(const Request &request, unsigned chunks, Run &run) {
  if (llvm::Error error = expectCounts(request, "auto"))
    return error;
  if (request.stages)
    return makeError("the search needs the same number of stages on each rank, found {0} stages "
                     "for {1} ranks",
                     *request.stages, request.ranks);
  schedule::search::AutoRequest search;
  search.ranks = request.ranks;
  search.microbatches = request.microbatches;
  search.chunks = chunks;
  search.topology = request.topology;
  search.costs = schedule::search::boundMemory(run.costs);
  search.memoryLimit = request.memoryLimit;
  search.spanFirst = request.spanFirst;
  search.effort = request.effort;
  search.seed = request.seed;
  auto result = schedule::search::findSchedule(search);
  if (!result)
    return result.takeError();
  run.program = std::move(result->program);
  run.searchSeconds = result->seconds;
  run.bound = result->bound;
  run.origin = result->origin;
  return llvm::Error::success();
}

/// The costs of a run's stages. A table per stage says what it is for, except that a program's
/// stages may be run several as one; uniform costs are scaled to the deepest stages.
static llvm::Expected<simulate::CostTable> fitCosts(const Request &request, unsigned numStages,
                                                    double depth) {
  if (request.program && request.program->isStaged && request.costs.stages.size() != numStages)
    return request.costs.merged(numStages);
  return request.costs.isUniform() ? request.costs.scaled(depth) : request.costs;
}

/// How many chunks schedules get that leave the number open: the program's, if it is given.
static void chooseChunks(Request &request) {
  if (!request.program || !request.program->isStaged || request.chunks || request.ranks == 0)
    return;
  auto stages = unsigned(request.program->work.stages.size());
  if (stages % request.ranks != 0)
    request.stages = stages;
  else
    request.chunks = stages / request.ranks;
}

llvm::Expected<std::vector<Run>> sim::runAll(Request request,
                                             const std::vector<std::string> &names) {
  bool ofProgram = names.empty();
  if (!ofProgram)
    chooseChunks(request);
  std::vector<Run> runs(ofProgram ? 1 : names.size());
  unsigned maxChunks = request.chunks.value_or(1);
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = ofProgram ? request.program->schedule->name : names[i];
    if (!ofProgram && names[i] == "auto")
      continue;
    // With stages given, a schedule that cannot have as many chunks runs several as one.
    auto program = ofProgram ? llvm::Expected<Schedule>(*request.program->schedule)
                             : makeSchedule(request, names[i], runs.size() > 1 || request.program);
    if (!program)
      return program.takeError();
    if ((request.ranks && request.ranks != program->numRanks()) ||
        (request.microbatches && request.microbatches != program->numMicrobatches))
      return makeError("{0} has {1} ranks and {2} microbatches, which --ranks and --microbatches "
                       "contradict",
                       ofProgram ? request.program->path : names[i], program->numRanks(),
                       program->numMicrobatches);
    runs[i].program = std::move(*program);
    maxChunks = std::max(maxChunks, runs[i].program.numStages() / runs[i].program.numRanks());
  }
  for (Run &run : runs) {
    bool searched = !ofProgram && run.name == "auto";
    unsigned chunks = searched ? maxChunks : run.program.numStages() / run.program.numRanks();
    unsigned stages = searched ? chunks * request.ranks : run.program.numStages();
    double depth = runs.size() > 1 ? double(maxChunks) / chunks : 1;
    auto costs = fitCosts(request, stages, depth);
    if (!costs)
      return makeError("{0}: {1}", run.name, llvm::toString(costs.takeError()));
    run.costs = std::move(*costs);
    run.isMilliseconds = request.isMilliseconds;
    run.isBytes = request.isBytes;
    if (searched)
      if (llvm::Error error = searchRun(request, chunks, run))
        return error;
    if (llvm::Error error = simulateRun(request, run))
      return makeError("{0}: {1}", run.name, llvm::toString(std::move(error)));
  }
  return runs;
}
