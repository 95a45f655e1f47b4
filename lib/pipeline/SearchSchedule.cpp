//===- SearchSchedule.cpp - a schedule searched for a program --------------===//

#include "lib/pipeline/SearchSchedule.h"

#include "lib/pipeline/StageWork.h"
#include "lib/schedule/search/Auto.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

static llvm::Expected<simulate::CostTable> readCosts(const simulate::ProgramWork &work,
                                                     const SearchOptions &options) {
  if (!options.profile.empty()) {
    auto table = simulate::readCostFile(options.profile);
    if (!table)
      return table;
    if (llvm::Error error = table->hasMemory() ? table->checkFor(unsigned(work.stages.size()))
                                               : simulate::setMemory(*table, work.stages))
      return llvm::createStringError(options.profile + ": " + llvm::toString(std::move(error)));
    return table;
  }
  if (options.cluster.empty())
    return simulate::costsOfStages(cost::makeNominalCluster(), work);
  auto cluster = cost::Library::readCluster(options.cluster);
  if (!cluster)
    return cluster.takeError();
  if (llvm::Error error = simulate::checkWidth(*cluster, work))
    return std::move(error);
  if (llvm::Error error = simulate::checkHostLink(*cluster, work))
    return std::move(error);
  return simulate::costsOfStages(*cluster, work);
}

FailureOr<schedule::Schedule> pipeline::searchSchedule(ArrayRef<train::ProgramFunctions> stages,
                                                       const SearchOptions &options,
                                                       Location location) {
  if (stages.size() % options.ranks != 0)
    return emitError(location) << "the search for a schedule needs the same number of stages on "
                                  "each rank, found "
                               << stages.size() << " stages for " << options.ranks << " ranks";
  FailureOr<simulate::ProgramWork> work = measureStages(stages, MeasureOptions());
  if (failed(work))
    return failure();
  auto costs = readCosts(*work, options);
  if (!costs)
    return emitError(location) << llvm::toString(costs.takeError());
  schedule::search::AutoRequest request;
  request.ranks = options.ranks;
  request.microbatches = options.microbatches;
  request.chunks = unsigned(stages.size()) / options.ranks;
  request.topology = options.topology;
  request.costs = schedule::search::boundMemory(std::move(*costs));
  request.memoryLimit = options.memoryLimit;
  request.effort = options.effort;
  request.seed = options.seed;
  auto result = schedule::search::findSchedule(request);
  if (!result)
    return emitError(location) << llvm::toString(result.takeError());
  return std::move(result->program);
}
