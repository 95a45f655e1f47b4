// Bounds of plans from stages of few layers.
#include "lib/plan/Samples.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/builders/Builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace cleave::plan;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;
namespace simulate = cleave::simulate;

static constexpr KernelTime StageSample::*passes[] = {&StageSample::forward, &StageSample::backward,
                                                      &StageSample::input, &StageSample::weight};
static constexpr double StageSample::*amounts[] = {
    &StageSample::savedBytes,    &StageSample::heldBytes,  &StageSample::parameterBytes,
    &StageSample::gradientBytes, &StageSample::stateBytes, &StageSample::gatheredBytes};

/// Applies a function to each number of two stages that grows with their layers.
template <typename Function>
static StageSample combine(StageSample a, const StageSample &b, Function apply) {
  for (auto pass : passes)
    for (auto part : {&KernelTime::device, &KernelTime::host})
      a.*pass.*part = apply(a.*pass.*part, b.*pass.*part);
  for (auto amount : amounts)
    a.*amount = apply(a.*amount, b.*amount);
  return a;
}

std::vector<StageSample> cleave::plan::describeStages(const cost::Cluster &cluster,
                                                      const simulate::ProgramWork &work) {
  std::vector<StageSample> samples;
  auto of = [](const simulate::FunctionTime &time) {
    return KernelTime{std::accumulate(time.exposed.begin(), time.exposed.end(), time.compute),
                      time.host};
  };
  for (auto [stage, time] : llvm::zip_equal(work.stages, simulate::timeStages(cluster, work)))
    samples.push_back({of(time.forward), of(time.backward), of(time.input), of(time.weight),
                       stage.savedBytes, stage.heldBytes, stage.forwardBytes, stage.backwardBytes,
                       stage.microbatchBytes, stage.gatheredBytes, stage.state.parameters,
                       stage.state.gradients, stage.state.optimizer});
  return samples;
}

/// What the last equal layer adds to the longest stage.
static std::optional<StageSample> findLayer(const std::map<int64_t, StageSample> &lengths) {
  if (lengths.size() < 2)
    return std::nullopt;
  auto last = std::prev(lengths.end()), before = std::prev(last);
  if (last->first != before->first + 1)
    return std::nullopt;
  return combine(last->second, before->second, std::minus<>());
}

std::optional<StageSample> StageSamples::get(int64_t begin, int64_t end) const {
  bool hasFirst = begin == 0, hasLast = end == layers;
  int64_t count = end - begin - int64_t(hasFirst) - int64_t(hasLast);
  auto kind = stages.find({hasFirst, hasLast});
  if (kind == stages.end() || kind->second.begin()->first > count)
    return std::nullopt;
  auto below = std::prev(kind->second.upper_bound(count));
  if (below->first == count)
    return below->second;
  std::optional<StageSample> layer = findLayer(kind->second);
  if (!layer) // what it adds to other stages, at the least
    for (const auto &[other, lengths] : stages)
      if (auto added = findLayer(lengths))
        layer = layer ? combine(*layer, *added, [](double a, double b) { return std::min(a, b); })
                      : added;
  if (!layer)
    return std::nullopt;
  double more = double(count - below->first);
  return combine(below->second, *layer,
                 [&](double a, double b) { return a + more * std::max(b, 0.0); });
}

llvm::Expected<schedule::Schedule> cleave::plan::orderPasses(const Plan &plan, const Space &space,
                                                             unsigned stages) {
  schedule::BuildRequest request;
  request.ranks = unsigned(plan.shape.layout.pipeline);
  request.microbatches = unsigned(space.programs[plan.shape.layout.program].microbatches);
  if (request.ranks > 1)
    request.stages = stages;
  return schedule::buildSchedule(plan.schedule, request);
}

/// What a shape's stages take, and by stage what it holds from beginning to end, and while it runs.
struct StageTable {
  simulate::CostTable costs;
  std::vector<double> held, temporary;
};

static std::optional<StageTable> findCosts(const Space &space, const cost::Cluster &cluster,
                                           const Shape &shape, const StageSamples &samples) {
  constexpr double milliseconds = 1e3;
  const Layout &layout = shape.layout;
  // Gradients of samples are whole, as those that are scattered once.
  double sharers = double(layout.data * layout.context);
  bool isFsdp = layout.sharding == Sharding::Fsdp || layout.sharding == Sharding::FsdpOnce;
  bool hasStates = layout.sharding == Sharding::Replicated || samples.hasShards();
  double parameterParts = isFsdp && !samples.hasShards() ? sharers : 1;
  double stateParts = hasStates ? 1 : sharers;
  double gradientParts = layout.sharding == Sharding::Fsdp ? sharers : 1;
  auto send = [&](double bytes) {
    return milliseconds * cost::sendTime(cluster, layout.numParts(), bytes);
  };
  StageTable table;
  table.costs.stages.clear();
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(space.programs[layout.program].layers);
  int64_t begin = 0;
  for (int64_t end : ends) {
    std::optional<StageSample> stage = samples.get(begin, end);
    if (!stage)
      return std::nullopt;
    begin = end;
    simulate::StageCost &cost = table.costs.stages.emplace_back();
    cost.forward = milliseconds * stage->forward.seconds();
    cost.input = milliseconds * stage->input.seconds();
    cost.weight = milliseconds * stage->weight.seconds();
    if (!shape.splitsBackward)
      cost.backward = milliseconds * stage->backward.seconds();
    cost.sendForward = send(stage->forwardBytes);
    cost.sendBackward = send(stage->backwardBytes);
    cost.forwardMemory = stage->savedBytes;
    cost.weightMemory = stage->heldBytes;
    cost.inputMemory = stage->savedBytes - stage->heldBytes;
    table.held.push_back(stage->parameterBytes / parameterParts +
                         stage->gradientBytes / gradientParts + stage->stateBytes / stateParts);
    // A stage that runs has its parameters.
    bool isGathered = layout.sharding == Sharding::FsdpOnce;
    table.temporary.push_back(stage->microbatchBytes + (isGathered ? stage->gatheredBytes : 0));
  }
  return table;
}

std::vector<PlanBound> cleave::plan::boundSchedules(const Space &space,
                                                    const cost::Cluster &cluster,
                                                    const Shape &shape,
                                                    const StageSamples &samples) {
  constexpr double milliseconds = 1e-3;
  auto found = findCosts(space, cluster, shape, samples);
  if (!found)
    return {};
  const auto &[costs, held, temporary] = *found;
  std::vector<PlanBound> bounds;
  for (const std::string &name : space.listSchedules(shape)) {
    PlanBound &bound = bounds.emplace_back();
    auto order = orderPasses({shape, name}, space, unsigned(costs.stages.size()));
    if (!order) {
      llvm::consumeError(order.takeError()); // carrying it out says why
      bound.seconds = bound.memory = std::numeric_limits<double>::infinity();
      continue;
    }
    auto makespan = boundOrder(costs, *order);
    if (!makespan) {
      llvm::consumeError(makespan.takeError());
      continue;
    }
    bound.seconds = (cluster.device.stepSeconds + milliseconds * *makespan) * (1 - rounding);
    for (unsigned rank = 0; rank < order->numRanks(); ++rank) {
      double bytes = 0, most = 0;
      simulate::memoryCurve(*order, costs, rank, &bytes);
      for (unsigned stage : order->topology.stagesOf(rank)) {
        bytes += held[stage];
        most = std::max(most, temporary[stage]);
      }
      bound.memory = std::max(bound.memory, (bytes + most) * (1 - rounding));
    }
  }
  return bounds;
}
