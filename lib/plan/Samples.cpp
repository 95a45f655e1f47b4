// Bounds of plans from stages of few layers.
#include "lib/plan/Samples.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/simulate/Step.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace cleave::plan;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;
namespace simulate = cleave::simulate;

static constexpr KernelTime StageSample::*passes[] = {
    &StageSample::forward, &StageSample::backward, &StageSample::input, &StageSample::weight,
    &StageSample::kernels, &StageSample::unshard,  &StageSample::update};
static constexpr double StageSample::*amounts[] = {
    &StageSample::savedBytes, &StageSample::heldBytes,     &StageSample::parameterBytes,
    &StageSample::stateBytes, &StageSample::gradientBytes, &StageSample::gatheredBytes,
    &StageSample::reduced,    &StageSample::heldGradients};

/// Applies a function to each number of two stages that grows with their layers.
template <typename Function>
static StageSample combine(StageSample a, const StageSample &b, Function apply) {
  for (auto pass : passes)
    for (auto part : {&KernelTime::device, &KernelTime::host, &KernelTime::stream})
      a.*pass.*part = apply(a.*pass.*part, b.*pass.*part);
  for (auto amount : amounts)
    a.*amount = apply(a.*amount, b.*amount);
  return a;
}

static std::vector<StageSample>
describe(const cost::Cluster &cluster, const simulate::ProgramWork &work,
         llvm::function_ref<KernelTime(const simulate::FunctionTime &)> of) {
  std::vector<StageSample> samples;
  for (auto [stage, time] : llvm::zip_equal(work.stages, simulate::timeStages(cluster, work)))
    samples.push_back({of(time.forward), of(time.backward), of(time.input), of(time.weight),
                       stage.savedBytes, stage.heldBytes, stage.forwardBytes, stage.backwardBytes,
                       stage.microbatchBytes, stage.gatheredBytes, stage.state.parameters,
                       stage.state.gradients, stage.state.optimizer});
  return samples;
}

std::vector<StageSample> cleave::plan::describeStages(const cost::Cluster &cluster,
                                                      const simulate::ProgramWork &work) {
  return describe(cluster, work, [](const simulate::FunctionTime &time) {
    const double waited = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
    return KernelTime{time.compute + waited + time.exposedCopies, time.host};
  });
}

/// Kernels, and communications beside them, whatever waits for what.
static KernelTime addStreams(const simulate::FunctionTime &time, double slowdown) {
  double sent = std::accumulate(time.transfer.begin(), time.transfer.end(), 0.0);
  double waited = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
  double kernels = time.compute - slowdown * std::max(sent - waited, 0.0);
  // Kernels take longer beside communication. The time grows with what a rank waits for: it is no
  // less than if nothing waited, nor than if kernels took no time of their own.
  double least = std::min(slowdown, 1.0);
  return {kernels + least * sent, time.host, sent + least * kernels};
}

std::vector<StageSample> cleave::plan::describeStreams(const cost::Cluster &cluster,
                                                       const simulate::ProgramWork &work) {
  auto samples = describe(cluster, work, [&](const simulate::FunctionTime &time) {
    return addStreams(time, cluster.device.overlapSlowdown);
  });
  // What is there while they run depends on what waits, too.
  for (StageSample &sample : samples)
    sample.microbatchBytes = 0;
  return samples;
}

cost::Cluster cleave::plan::makeLinear(cost::Cluster cluster) {
  cluster.device.kernelSeconds = cluster.device.hostSeconds = 0;
  cluster.firstSlots = false;
  for (cost::Level &level : cluster.levels)
    level.link.startSeconds = level.link.latency = 0;
  return cluster;
}

std::vector<StageSample> cleave::plan::describeAny(const cost::Cluster &cluster,
                                                   const simulate::ProgramWork &work,
                                                   const simulate::ProgramWork &least, bool waits,
                                                   bool hasOnce) {
  std::vector<StageSample> samples =
      waits ? describeStages(cluster, least) : describeStreams(cluster, least);
  std::vector<StageSample> streams = describeStreams(cluster, least);
  const cost::Cluster linear = makeLinear(cluster);
  simulate::RunOptions options;
  options.schedulesReductions = true;
  std::vector<simulate::StageTime> once = simulate::timeStages(linear, work, options);
  for (size_t number = 0; number < samples.size(); ++number) {
    StageSample &sample = samples[number];
    const simulate::StageWork &stage = work.stages[number];
    for (auto pass : {&StageSample::backward, &StageSample::input, &StageSample::weight})
      sample.kernels += streams[number].*pass;
    sample.heldGradients = sample.heldBytes;
    sample.savedBytes = stage.savedBytes;
    sample.heldBytes = stage.heldBytes;
    sample.microbatchBytes = waits ? stage.microbatchBytes : 0;
    if (!hasOnce)
      continue;
    sample.unshard = addStreams(once[number].unshard, cluster.device.overlapSlowdown);
    sample.update = addStreams(once[number].update, cluster.device.overlapSlowdown);
    sample.reduced = once[number].reduce.seconds * stage.numReductions;
  }
  return samples;
}

const StageSample *StageSamples::find(llvm::ArrayRef<unsigned> stage) const {
  auto found = stages.find(Kinds(stage));
  return found == stages.end() ? nullptr : &found->second;
}

/// A stage and some more layers that each add the difference of two stages. None takes away.
static StageSample addLayers(const StageSample &stage, const StageSample &with,
                             const StageSample &without, double count = 1) {
  StageSample added = combine(with, without, std::minus<>());
  return combine(stage, added, [&](double a, double b) { return a + count * std::max(b, 0.0); });
}

std::optional<StageSample> StageSamples::get(int64_t begin, int64_t end) const {
  llvm::ArrayRef<unsigned> stage = llvm::ArrayRef(kinds).slice(begin, end - begin);
  if (const StageSample *known = find(stage))
    return *known;
  if (stage.size() == 1)
    return std::nullopt;
  std::optional<StageSample> sum = stage.size() == kinds.size()   ? getWhole()
                                   : begin == 0                   ? getFirst(stage)
                                   : end == int64_t(kinds.size()) ? getLast(stage)
                                                                  : getMiddle(stage);
  // Where layers between the first and the last are of several kinds, those that take most room may
  // have less of it free beside what a longer stage keeps: of that nothing is said.
  if (sum && kinds[1] != kinds[kinds.size() - 2])
    sum->microbatchBytes = 0;
  return sum;
}

/// Each layer adds what one of its kind adds to one of the kind before it.
std::optional<StageSample> StageSamples::getMiddle(llvm::ArrayRef<unsigned> stage) const {
  const StageSample *base = find(stage.take_front(2));
  if (!base)
    return std::nullopt;
  StageSample sum = *base;
  for (size_t layer = 2; layer < stage.size(); ++layer) {
    const StageSample *with = find(stage.slice(layer - 1, 2)), *without = find(stage[layer - 1]);
    if (!with || !without)
      return std::nullopt;
    sum = addLayers(sum, *with, *without);
    sum.forwardBytes = with->forwardBytes;
  }
  return sum;
}

/// From the first layer on gradients go to no other stage: each further layer adds what it adds to
/// such a stage.
std::optional<StageSample> StageSamples::getFirst(llvm::ArrayRef<unsigned> stage) const {
  size_t length = stage.size();
  while (length > 1 && !find(stage.take_front(length)))
    --length;
  const StageSample *with = find(stage.take_front(length)),
                    *without = find(stage.take_front(length - 1));
  bool isRun = llvm::all_equal(stage.drop_front(length - 1));
  if (!with || !without || !isRun)
    return std::nullopt;
  const double count = double(stage.size() - length);
  StageSample sum = addLayers(*with, *with, *without, count);
  // What is there while it runs may be most at the end of the backward, where the first layer's is
  // (an embedding's gradient), and what further layers keep is free by then. The last layers' is
  // there while everything is kept, as of stages in the middle.
  const double freed = count * std::max(with->savedBytes - without->savedBytes, 0.0);
  double least = std::max(with->microbatchBytes - freed, 0.0);
  for (const Kinds &last : {Kinds{stage.back(), stage.back()}, Kinds{stage.back()}})
    if (const StageSample *middle = find(last))
      least = std::max(least, std::min(middle->microbatchBytes, with->microbatchBytes));
  sum.microbatchBytes = least;
  return sum;
}

/// The same of those before the last layer.
std::optional<StageSample> StageSamples::getLast(llvm::ArrayRef<unsigned> stage) const {
  const StageSample *with = find(stage.take_back(2)), *without = find(stage.back());
  if (!with || !without || !llvm::all_equal(stage.drop_back()))
    return std::nullopt;
  return addLayers(*with, *with, *without, double(stage.size() - 2));
}

/// The layers with as many of each run as are carried out.
static std::vector<unsigned> shorten(llvm::ArrayRef<unsigned> kinds) {
  std::vector<unsigned> kept;
  for (size_t layer = 0; layer < kinds.size(); ++layer)
    if (layer < maxSampledRun || kinds[layer - maxSampledRun] != kinds[layer])
      kept.push_back(kinds[layer]);
  return kept;
}

/// All layers in one stage, from one with as many of each run as are carried out.
std::optional<StageSample> StageSamples::getWhole() const {
  Kinds known = shorten(kinds);
  const StageSample *base = find(known);
  if (!base)
    return std::nullopt;
  StageSample sum = *base;
  for (size_t layer = maxSampledRun; layer < kinds.size(); ++layer) {
    if (kinds[layer - maxSampledRun] != kinds[layer])
      continue;
    const StageSample *with = find({kinds[layer], kinds[layer]}), *without = find(kinds[layer]);
    if (!with || !without)
      return std::nullopt;
    sum = addLayers(sum, *with, *without);
  }
  return sum;
}

std::vector<std::vector<unsigned>> StageSamples::listNeeded(llvm::ArrayRef<unsigned> kinds,
                                                            int64_t begin, int64_t end) {
  llvm::ArrayRef<unsigned> stage = kinds.slice(begin, end - begin);
  std::vector<Kinds> needed;
  size_t length = stage.size();
  if (length == kinds.size()) {
    needed.push_back(shorten(kinds));
    for (size_t layer = maxSampledRun; layer < length; ++layer)
      if (kinds[layer - maxSampledRun] == kinds[layer])
        needed.insert(needed.end(), {{kinds[layer]}, {kinds[layer], kinds[layer]}});
  } else if (length == 1) {
    needed.push_back(stage.vec());
  } else if (begin == 0) {
    // Up to the first of its last run, and what that adds.
    while (stage[length - 2] == stage[length - 1])
      --length;
    needed.push_back(stage.take_front(length).vec());
    if (length < stage.size())
      needed.push_back(stage.take_front(length - 1).vec());
  } else if (end == int64_t(kinds.size())) {
    needed.push_back(stage.take_back(2).vec());
    if (length > 2)
      needed.push_back(stage.take_back(1).vec());
  } else {
    for (size_t layer = 0; layer + 1 < length; ++layer) {
      needed.push_back(stage.slice(layer, 2).vec());
      if (layer > 0)
        needed.push_back(stage.slice(layer, 1).vec());
    }
  }
  return needed;
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

std::optional<StageTable> cleave::plan::tabulateStages(const Space &space,
                                                       const cost::Cluster &cluster,
                                                       const Shape &shape,
                                                       const StageSamples &samples) {
  constexpr double milliseconds = 1e3;
  const Layout &layout = shape.layout;
  // Gradients of samples are whole, as those that are scattered once.
  bool hasStates = samples.hasStates(layout);
  const std::vector<ProgramBytes> &experts = space.programs[layout.program].expertBytes;
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
    simulate::StageCost &cost = table.costs.stages.emplace_back();
    cost.forward = milliseconds * stage->forward.seconds();
    cost.input = milliseconds * stage->input.seconds();
    cost.weight = milliseconds * stage->weight.seconds();
    if (!shape.splitsBackward)
      cost.backward = milliseconds * stage->backward.seconds();
    cost.unshard = milliseconds * stage->unshard.seconds();
    cost.reduce = milliseconds * stage->reduced;
    cost.optimizer = milliseconds * stage->update.seconds();
    cost.sendForward = send(stage->forwardBytes);
    cost.sendBackward = send(stage->backwardBytes);
    cost.forwardMemory = stage->savedBytes;
    cost.weightMemory = stage->heldBytes;
    cost.inputMemory = stage->savedBytes - stage->heldBytes;
    // Experts are divided among fewer ranks: those that have the same ones.
    ProgramBytes stacked;
    for (int64_t layer = begin; layer < end && !experts.empty(); ++layer)
      stacked += experts[size_t(layer)];
    auto divide = [&](double all, double ofExperts) {
      double some = std::min(all, ofExperts / double(layout.experts * layout.tensor));
      double rest = std::max(all - ofExperts / double(layout.experts), 0.0);
      return some / double(layout.numDataShards() * layout.context) +
             rest / double(layout.numShards());
    };
    bool dividesParameters = layout.shardsParameters() && !samples.hasShards();
    double parameters = dividesParameters ? divide(stage->parameterBytes, stacked.parameters)
                                          : stage->parameterBytes;
    double gradients = layout.sharding == Sharding::Fsdp && !samples.hasGathers()
                           ? divide(stage->gradientBytes, stacked.gradients)
                           : stage->gradientBytes;
    double states = hasStates ? stage->stateBytes : divide(stage->stateBytes, stacked.states);
    table.held.push_back(parameters + gradients + states);
    table.temporary.push_back(samples.hasTemporary(layout) ? stage->microbatchBytes : 0);
    bool isGathered = layout.sharding == Sharding::FsdpOnce;
    table.gathered.push_back(isGathered ? stage->gatheredBytes : 0);
    table.kernels.push_back(stage->kernels);
    table.heldGradients.push_back(stage->heldGradients);
    begin = end;
  }
  return table;
}

double cleave::plan::boundSampled(const Space &space, const cost::Cluster &cluster,
                                  const Shape &shape, const StageSamples &samples, double memory) {
  constexpr double milliseconds = 1e-3;
  auto found = tabulateStages(space, cluster, shape, samples);
  if (!found)
    return 0;
  std::vector<double> saved;
  for (const simulate::StageCost &stage : found->costs.stages)
    saved.push_back(stage.forwardMemory);
  double ranks = double(shape.layout.pipeline);
  double room = ranks * memory - std::accumulate(found->held.begin(), found->held.end(), 0.0);
  double step = boundStages(found->costs, unsigned(ranks), saved,
                            double(space.programs[shape.layout.program].microbatches),
                            shape.splitsBackward, room);
  return (cluster.device.stepSeconds + milliseconds * step) * (1 - rounding);
}

std::vector<PlanBound> cleave::plan::boundSchedules(const Space &space,
                                                    const cost::Cluster &cluster,
                                                    const Shape &shape,
                                                    const StageSamples &samples) {
  constexpr double milliseconds = 1e-3;
  auto found = tabulateStages(space, cluster, shape, samples);
  if (!found)
    return {};
  const simulate::CostTable &costs = found->costs;
  bool isGathered = llvm::any_of(found->gathered, [](double bytes) { return bytes > 0; });
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
    // As the schedule is completed when it is carried out.
    if (isGathered && order->numRanks() > 1)
      llvm::cantFail(schedule::addUnshards(*order));
    for (unsigned rank = 0; rank < order->numRanks(); ++rank) {
      double bytes = 0, most = 0;
      simulate::memoryCurve(*order, costs, rank, &bytes);
      for (unsigned stage : order->topology.stagesOf(rank)) {
        bytes += found->held[stage];
        most = std::max(most, found->temporary[stage]);
      }
      bytes += simulate::measureGathered(*order, rank, found->gathered);
      bound.memory = std::max(bound.memory, (bytes + most) * (1 - rounding));
    }
  }
  return bounds;
}
