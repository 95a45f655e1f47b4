//===- SearchSchedule.cpp - a schedule searched for a program --------------===//

#include "lib/pipeline/SearchSchedule.h"

#include "lib/pipeline/StageWork.h"
#include "lib/schedule/search/Auto.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;

/// Between a processor and an accelerator, as lib/pipeline/Balance.h balances stages: the order of
/// passes depends on ratios of their times alone.
static simulate::Machine getTypicalMachine() {
  simulate::Machine machine;
  machine.device.flops[""] = 32e12;
  machine.device.memoryBandwidth = 1e12;
  machine.link = {5e-6, 100e9};
  machine.collective = machine.link;
  return machine;
}

static llvm::Expected<simulate::CostTable> readCosts(ArrayRef<simulate::StageWork> work,
                                                     const SearchOptions &options) {
  if (!options.profile.empty()) {
    auto table = simulate::readCostFile(options.profile);
    if (!table)
      return table;
    if (llvm::Error error = table->hasMemory() ? table->checkFor(unsigned(work.size()))
                                               : simulate::setMemory(*table, work))
      return llvm::createStringError(options.profile + ": " + llvm::toString(std::move(error)));
    return table;
  }
  if (options.device.empty())
    return simulate::costsOfStages(getTypicalMachine(), work);
  auto machine = simulate::readMachineFile(options.device);
  if (!machine)
    return machine.takeError();
  auto table = simulate::costsOfStages(*machine, work);
  if (!table)
    return llvm::createStringError(options.device + ": " + llvm::toString(table.takeError()));
  return table;
}

FailureOr<schedule::Schedule> pipeline::searchSchedule(ArrayRef<train::ProgramFunctions> stages,
                                                       const SearchOptions &options,
                                                       Location location) {
  if (stages.size() % options.ranks != 0)
    return emitError(location) << "the search for a schedule needs the same number of stages on "
                                  "each rank, found "
                               << stages.size() << " stages for " << options.ranks << " ranks";
  FailureOr<std::vector<simulate::StageWork>> work = measureStages(stages, /*axisSizes=*/nullptr);
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
