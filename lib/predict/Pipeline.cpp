//===- Pipeline.cpp - a pipeline of few microbatches stands for many ----------===//

#include "lib/predict/StepTime.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/simulate/Metrics.h"

#include <map>

using namespace cleave;
using namespace cleave::predict;

/// Builds a schedule once for all rows that have it.
static llvm::Expected<const schedule::Schedule *> getSchedule(unsigned ranks, unsigned chunks,
                                                              unsigned microbatches) {
  static std::map<std::tuple<unsigned, unsigned, unsigned>, schedule::Schedule> built;
  auto key = std::tuple(ranks, chunks, microbatches);
  auto found = built.find(key);
  if (found != built.end())
    return &found->second;
  llvm::StringRef name = chunks > 1 ? "interleaved-1f1b" : "1f1b";
  const schedule::ScheduleBuilder *builder = schedule::ScheduleRegistry::global().find(name);
  if (!builder)
    return makeError("no schedule is named '{0}'", name);
  schedule::BuildRequest request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.chunks = chunks;
  auto program = builder->build(request);
  if (!program)
    return program.takeError();
  return &built.emplace(key, std::move(*program)).first->second;
}

static llvm::Expected<double> runSchedule(const simulate::CostTable &costs, unsigned ranks,
                                          unsigned chunks, unsigned microbatches) {
  auto program = getSchedule(ranks, chunks, microbatches);
  if (!program)
    return program.takeError();
  auto timeline = simulate::simulate(**program, costs);
  if (!timeline)
    return timeline.takeError();
  return simulate::measure(**program, *timeline).makespan;
}

llvm::Expected<double> predict::pipelineTime(llvm::ArrayRef<StageTime> stages, unsigned ranks,
                                             unsigned microbatches, bool blockingTransfers) {
  simulate::CostTable costs;
  costs.stages.clear();
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageTime &stage = stages[s];
    simulate::StageCost &cost = costs.stages.emplace_back();
    cost.forward = stage.forward.seconds();
    cost.backward = stage.backward.seconds();
    double send = s + 1 < stages.size() ? stage.send : 0, sendBack = s > 0 ? stage.send : 0;
    if (blockingTransfers) {
      cost.forward += send;
      cost.backward += sendBack;
    } else {
      cost.sendForward = send;
      cost.sendBackward = sendBack;
    }
    cost.input = cost.weight = cost.backward / 2;
  }
  unsigned chunks = unsigned(stages.size()) / ranks;
  // Interleaving needs whole groups of microbatches; the last group is not full in such runs.
  unsigned rounded = chunks > 1 ? (microbatches + ranks - 1) / ranks * ranks : microbatches;
  if (rounded <= 4 * ranks)
    return runSchedule(costs, ranks, chunks, rounded);
  unsigned few = 2 * ranks + rounded % ranks;
  auto first = runSchedule(costs, ranks, chunks, few);
  if (!first)
    return first.takeError();
  auto second = runSchedule(costs, ranks, chunks, few + ranks);
  if (!second)
    return second.takeError();
  return *second + (*second - *first) * double(rounded - few - ranks) / ranks;
}
