//===- StepTime.cpp - a training step from its stages ------------------------===//

#include "lib/predict/StepTime.h"

#include "lib/predict/PlannedStages.h"
#include "lib/predict/Step.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace cleave;
using namespace cleave::predict;
using cost::Collective;

/// Reduction of a stage's gradients and gathering of its updated parameters: what is not hidden
/// under the backward of a microbatch, and under its forward.
double Step::gradientTime(const StageTime &stage, double &hidden) const {
  hidden = 0;
  if (layout.shardStage >= 3 || layout.lowRankTuning)
    return 0;
  const Software &software = layout.software;
  cost::Group data = groups[size_t(Axis::Data)];
  cost::Group experts{layout.data * layout.context * layout.tensor / layout.expert, layout.expert};
  bool narrow = software.gathersNarrow > 0 && layout.width == cost::Width::Bits8;
  double reduced = 0, gathered = 0;
  for (auto [parameters, group] :
       {std::pair(stage.parameters, data), std::pair(stage.expertParameters, experts)}) {
    double bytes = software.gradientBytes * parameters;
    if (layout.shardStage == 0) {
      reduced += cost::timeOf(cluster, Collective::AllReduce, group, bytes);
      continue;
    }
    reduced += cost::timeOf(cluster, Collective::ReduceScatter, group, bytes);
    gathered += cost::timeOf(cluster, Collective::AllGather, group, (narrow ? 1 : 2) * parameters);
  }
  // All but what is ready last, or wanted first.
  auto hide = [&](double seconds, double under) {
    double covered = std::min(0.95 * seconds, under);
    hidden += covered;
    return seconds - covered;
  };
  if (software.overlapsGathers > 0)
    gathered = hide(gathered, stage.forward.seconds());
  else
    reduced += std::exchange(gathered, 0);
  if (software.overlapsGradients > 0)
    reduced = hide(reduced, stage.backward.seconds());
  return gathered + reduced;
}

double Step::updateTime(const StageTime &stage) const {
  double shards = layout.shardStage ? double(std::max<int64_t>(layout.shardRanks, 1)) : 1;
  double expertShards = layout.shardStage
                            ? std::max(1.0, double(layout.data * layout.context * layout.tensor) /
                                                double(layout.expert))
                            : 1;
  double parameters = stage.parameters / shards + stage.expertParameters / expertShards;
  if (layout.lowRankTuning)
    parameters *= 0.01;
  return cost::timeOfBytes(cluster.device, layout.software.optimizerBytes * parameters);
}

llvm::Expected<Prediction> Step::finish() {
  Prediction result;
  result.notes = layout.notes;
  size_t ranks = size_t(layout.pipeline);
  unsigned microbatches = unsigned(layout.microbatches);
  // The busiest rank's work, to tell bubbles from it.
  double busiest = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    PassTime both;
    double busy = 0, parameters = 0, saved = 0;
    for (size_t s = rank; s < stages.size(); s += ranks) {
      parameters += stages[s].parameters + stages[s].expertParameters;
      saved += stages[s].savedBytes;
      both += stages[s].forward;
      both += stages[s].backward;
      busy += microbatches * (stages[s].forward.seconds() + stages[s].backward.seconds());
    }
    if (busy <= busiest)
      continue;
    busiest = busy;
    for (size_t i = 0; i < numAxes; ++i) {
      result.exposed[i] = microbatches * both.exposed[i];
      result.sent[i] = microbatches * both.sent[i];
    }
    result.flops = microbatches * both.flops;
    result.parameters = parameters;
    result.savedBytes = saved;
    result.compute = busy - std::accumulate(result.exposed.begin(), result.exposed.end(), 0.0);
  }
  double pipeline = busiest;
  if (ranks > 1 && terms.bubble) {
    auto seconds =
        pipelineTime(stages, layout.pipeline, microbatches, layout.software.blockingTransfers > 0);
    if (!seconds)
      return seconds.takeError();
    pipeline = *seconds;
  }
  result.bubble = pipeline - busiest;
  double slowdown = terms.contention ? cluster.device.overlapSlowdown : 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    StageTime all;
    for (size_t s = rank; s < stages.size(); s += ranks)
      all += stages[s];
    double hidden = 0;
    double gradients = gradientTime(all, hidden);
    result.gradients = std::max(result.gradients, gradients + slowdown * hidden);
    if (terms.optimizer)
      result.update = std::max(result.update, updateTime(all));
    result.memory = std::max(result.memory, memoryOf(rank));
  }
  if (layout.software.tiedEmbeddings > 0 && ranks > 1)
    result.gradients += cost::timeOf(cluster, Collective::AllReduce,
                                     {2, layout.gpus / layout.pipeline}, embeddingBytes);
  if (terms.launches)
    result.update += cluster.device.stepSeconds;
  result.seconds = pipeline + result.gradients + result.update;
  double measured = result.memory;
  if (layout.reportsLayers) {
    Step bare(*this);
    bare.hasEnds = false;
    bare.makeStages();
    measured = 0;
    for (size_t rank = 0; rank < ranks; ++rank)
      measured = std::max(measured, bare.memoryOf(rank));
  }
  reportMemory(result, measured);
  return result;
}

llvm::Expected<Prediction> Step::run() {
  cluster.firstSlots = terms.slots;
  for (cost::Level &level : cluster.levels) {
    if (!terms.latency)
      level.link.latency = 0;
    if (!terms.starts)
      level.link.startSeconds = 0;
    if (!terms.strided)
      level.link.stridedEfficiency = 1;
  }
  if (layout.recompute == Recompute::Unknown)
    fitRecomputation();
  else
    makeStages();
  return finish();
}

llvm::Expected<Prediction> Step::runPlan(const llvm::json::Object &plan) {
  auto planned = makePlannedStages(layout, cluster, plan, terms);
  if (!planned)
    return planned.takeError();
  layout = planned->layout;
  stages = std::move(planned->stages);
  embeddingBytes = planned->embeddingBytes;
  // Ranks of a stage reduce among themselves: each stage has its own degree.
  Prediction result;
  auto seconds = pipelineTime(stages, unsigned(stages.size()), unsigned(layout.microbatches), true);
  if (!seconds)
    return seconds.takeError();
  result.notes = layout.notes;
  double busiest = 0, measured = 0;
  int64_t first = 0; // device of a stage
  for (size_t rank = 0; rank < stages.size(); ++rank) {
    const StageTime &stage = stages[rank];
    busiest = std::max(busiest, double(layout.microbatches) *
                                    (stage.forward.seconds() + stage.backward.seconds()));
    groups[size_t(Axis::Data)] = {int64_t(stage.data), int64_t(stage.tensor)};
    layout.data = int64_t(stage.data);
    layout.shardRanks = layout.data;
    double hidden = 0;
    result.gradients = std::max(result.gradients, gradientTime(stage, hidden));
    if (terms.optimizer)
      result.update = std::max(result.update, updateTime(stage));
    double inFlight = std::min(double(stages.size() - rank), double(layout.microbatches));
    double memory = memoryOf(stage, inFlight * stage.savedBytes + stage.workBytes);
    result.memory = std::max(result.memory, memory);
    if (layout.measuredRanks == 0 || first < layout.measuredRanks)
      measured = std::max(measured, memory);
    first += int64_t(stage.tensor * stage.data);
  }
  result.compute = busiest;
  result.bubble = *seconds - busiest;
  if (terms.launches)
    result.update += cluster.device.stepSeconds;
  result.seconds = *seconds + result.gradients + result.update;
  reportMemory(result, measured);
  return result;
}

/// What an open micro-batch and an open number of chunks may be.
static std::vector<Layout> getChoices(const Layout &layout) {
  std::vector<Layout> choices;
  int64_t share = layout.globalBatch / layout.data;
  for (int64_t micro : layout.microBatch ? std::vector<int64_t>{layout.microBatch}
                                         : std::vector<int64_t>{1, 2, 4, 8, 16}) {
    if (share % micro)
      continue;
    for (int64_t chunks :
         layout.chunks ? std::vector<int64_t>{layout.chunks} : std::vector<int64_t>{1, 2, 4}) {
      int64_t stages = layout.pipeline * chunks;
      bool even = layout.layers % stages == 0 || (layout.layers + 2) % stages == 0;
      if (!layout.chunks && chunks > 1 && (!even || (share / micro) % layout.pipeline))
        continue;
      Layout &choice = choices.emplace_back(layout);
      choice.microBatch = micro;
      choice.microbatches = share / micro;
      choice.chunks = chunks;
      if (!layout.microBatch)
        choice.notes.push_back("micro_batch: " + std::to_string(micro) +
                               " is the fastest that fits");
      if (!layout.chunks)
        choice.notes.push_back("vpp: " + std::to_string(chunks) + " is the fastest that fits");
    }
  }
  return choices;
}

llvm::Expected<Prediction> predict::predictStep(const Layout &layout, const cost::Cluster &cluster,
                                                const llvm::json::Object *plans,
                                                const Terms &terms) {
  if (!layout.plan.empty()) {
    const llvm::json::Object *plan = plans ? plans->getObject(layout.plan) : nullptr;
    if (!plan)
      return makeError("extra: the layout is a plan by op: expected '{0}' in the file of --plans",
                       layout.plan);
    return Step(layout, cluster, terms).runPlan(*plan);
  }
  std::optional<Prediction> best;
  double limit = cluster.device.memory;
  std::vector<Layout> choices = getChoices(layout);
  if (choices.empty())
    return makeError("micro_batch: no divisor of global_batch / dp from 1 to 16 can run");
  for (const Layout &choice : choices) {
    auto prediction = Step(choice, cluster, terms).run();
    if (!prediction)
      return prediction.takeError();
    bool fits = prediction->memory <= limit;
    bool bestFits = best && best->memory <= limit;
    if (!best || (fits && !bestFits) || (fits == bestFits && prediction->seconds < best->seconds))
      best = std::move(*prediction);
  }
  return std::move(*best);
}
