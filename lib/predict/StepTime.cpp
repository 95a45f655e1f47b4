//===- StepTime.cpp - a training step from its layers -------------------------===//

#include "lib/predict/StepTime.h"

#include "lib/predict/PlannedStages.h"
#include "lib/predict/Transformer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

using namespace cleave;
using namespace cleave::predict;
using cost::Collective;

/// What stays free: the context, libraries, fragments.
static constexpr double usableMemory = 0.92;

/// What PyTorch's caching allocator holds beyond what tensors take: segments are multiples of 2
/// MiB, blocks below 10 MiB share segments of 20 MiB, and a block that is split leaves a rest which
/// larger tensors do not fit into. Of 176 ranks that reported both (Aceso's and Mist's), half held
/// 11 % more, nine of ten between 3 and 16 %; segments that grow in place leave next to none.
static constexpr double idleSegments = 0.11, idleGrowingSegments = 0.03;

namespace {
/// One choice of what a layout leaves open.
class Step {
public:
  Step(const Layout &layout, const cost::Cluster &cluster, const Terms &terms)
      : layout(layout), cluster(cluster), terms(terms) {}

  llvm::Expected<Prediction> run();
  llvm::Expected<Prediction> runPlan(const llvm::json::Object &plan);

private:
  void makeStages();
  StageTime makeStage(const LayerClass &layer, double count) const;
  double parameterBytes(const StageTime &stage) const;
  double activationBytes(size_t rank) const;
  double memoryOf(size_t rank) const;
  double memoryOf(const StageTime &stage, double activations) const;
  void reportMemory(Prediction &result, double measured) const;
  void fitRecomputation();
  double gradientTime(const StageTime &stage, double &hidden) const;
  double updateTime(const StageTime &stage) const;
  llvm::Expected<Prediction> finish();
  void shardParameters(LayerClass &layer) const;

  Layout layout;
  cost::Cluster cluster;
  Terms terms;
  Groups groups;
  std::vector<StageTime> stages;
  double embeddingBytes = 0;
  bool hasEnds = true; // the embedding and the head
};
} // namespace

/// What a recomputed forward does of this one, where its parameters are there.
static Pass withoutGathers(const Pass &pass) {
  Pass result;
  llvm::copy_if(pass, std::back_inserter(result),
                [](const LayerOp &op) { return op.axis != Axis::Data; });
  return result;
}

/// Time and memory of `count` layers, with the layout's recomputation.
StageTime Step::makeStage(const LayerClass &layer, double count) const {
  StageTime result;
  bool graphs = layout.software.graphs > 0;
  PassTime forward = timeOf(cluster, groups, layer.forward, terms, graphs);
  PassTime backward = timeOf(cluster, groups, layer.backward, terms, graphs);
  double saved = layer.savedBytes;
  if (layout.recompute == Recompute::Attention) {
    backward += timeOf(cluster, groups, layer.again, terms, graphs);
    saved = layer.savedWithoutAgain;
  } else if (layout.recompute == Recompute::Selective) {
    // Half of the products, and all that is memory-bound.
    Pass again;
    bool every = false;
    for (const LayerOp &op : layer.forward)
      if (op.kind == LayerOp::Bytes || (op.kind == LayerOp::Product && (every = !every)))
        again.push_back(op);
    backward += timeOf(cluster, groups, again, terms, graphs);
    saved = 0.45 * saved;
  } else if (layout.recomputedLayers > 0) {
    bool gathersAgain = layout.shardStage < 3 || layout.software.gathersAgain > 0;
    PassTime again = gathersAgain
                         ? forward
                         : timeOf(cluster, groups, withoutGathers(layer.forward), terms, graphs);
    backward += again.scaled(layout.recomputedLayers);
    saved = layout.recomputedLayers * layer.inputBytes + (1 - layout.recomputedLayers) * saved;
  }
  result.forward = forward.scaled(count);
  result.backward = backward.scaled(count);
  result.savedBytes = count * saved;
  if (layout.recomputedLayers > 0)
    result.workBytes = layer.savedBytes;
  result.parameters = count * layer.parameters;
  result.expertParameters = count * layer.expertParameters;
  return result;
}

static void add(StageTime &to, const StageTime &from) {
  to.forward += from.forward;
  to.backward += from.backward;
  to.savedBytes += from.savedBytes;
  to.workBytes = std::max(to.workBytes, from.workBytes);
  to.parameters += from.parameters;
  to.expertParameters += from.expertParameters;
}

/// Parameters that are sharded as a whole are gathered for each pass, and their gradients reduced.
void Step::shardParameters(LayerClass &layer) const {
  if (layout.shardStage < 3 || layout.shardRanks <= 1)
    return;
  const Software &software = layout.software;
  double messages = std::max(software.gathersOfLayer, 1.0);
  double parts = messages * double(groups[size_t(Axis::Data)].size);
  auto communicate = [&](Pass &pass, Collective collective, double bytes) {
    LayerOp op{LayerOp::Communication};
    op.axis = Axis::Data;
    op.overlap = software.overlapsGradients;
    op.collective = collective;
    op.bytes = bytes / messages;
    pass.insert(pass.end(), size_t(messages), op);
    if (software.copiesParts == 0)
      return;
    LayerOp copy{LayerOp::Bytes};
    copy.axis = Axis::Data;
    copy.bytes = 2 * bytes; // read and written
    copy.kernels = messages;
    copy.parts = parts;
    pass.push_back(copy);
  };
  communicate(layer.forward, Collective::AllGather, 2 * layer.parameters);
  communicate(layer.backward, Collective::AllGather, 2 * layer.parameters);
  communicate(layer.backward, Collective::ReduceScatter, software.gradientBytes * layer.parameters);
}

void Step::makeStages() {
  int64_t tensor = layout.tensor, context = layout.context, data = layout.data;
  groups[size_t(Axis::Tensor)] = {tensor, 1};
  groups[size_t(Axis::Context)] = {context, tensor};
  groups[size_t(Axis::Expert)] = {layout.expert, 1};
  groups[size_t(Axis::Data)] = {data * context, tensor};
  Shape shape{&layout, double(layout.microBatch), double(tensor)};
  size_t count = size_t(layout.pipeline * layout.chunks);
  stages.assign(count, StageTime());

  int64_t dense = layout.experts ? std::min(int64_t(layout.dimensions.denseLayers), layout.layers)
                                 : layout.layers;
  double denseFfn = layout.experts ? layout.dimensions.denseFfn : double(layout.ffn);
  StageTime denseTime, expertTime;
  if (dense > 0) {
    LayerClass layer = getDenseLayer(shape, denseFfn);
    shardParameters(layer);
    denseTime = makeStage(layer, 1);
  }
  if (layout.experts) {
    LayerClass layer = getExpertLayer(shape);
    shardParameters(layer);
    expertTime = makeStage(layer, 1);
  }
  // Where that comes out even, the embedding and the head count as layers; otherwise stages without
  // them get what is left over.
  int64_t next = 0;
  bool asLayers = layout.layers % int64_t(count) && (layout.layers + 2) % int64_t(count) == 0;
  int64_t total = layout.layers + (asLayers ? 2 : 0);
  int64_t full = (layout.layers + int64_t(count)) / int64_t(count); // with the embedding as a layer
  int64_t each = total / int64_t(count), left = total % int64_t(count);
  for (size_t s = 0; s < count; ++s) {
    bool extra = int64_t(s) >= 1 && int64_t(s) <= left;
    int64_t layers = each + extra - (asLayers && (s == 0 || s + 1 == count));
    if (layout.software.fillsStages > 0)
      layers = std::min(full, layout.layers - next);
    for (int64_t i = 0; i < layers; ++i, ++next)
      add(stages[s], next < dense ? denseTime : expertTime);
  }
  if (!hasEnds)
    return;
  // Embedding and head are never recomputed.
  LayerClass embedding = getEmbedding(shape), head = getHead(shape);
  embeddingBytes = layout.software.gradientBytes * embedding.parameters;
  shardParameters(embedding);
  shardParameters(head);
  Step plain(*this);
  plain.layout.recompute = Recompute::None;
  plain.layout.recomputedLayers = 0;
  add(stages.front(), plain.makeStage(embedding, 1));
  StageTime last = plain.makeStage(head, 1);
  if (layout.software.tiedEmbeddings > 0 && layout.pipeline == 1)
    last.parameters -= embedding.parameters;
  add(stages.back(), last);
  last.parameters = 0; // each further prediction has the same head
  for (double i = 0; i < layout.dimensions.predictions; ++i) {
    LayerClass join = getJoin(shape);
    shardParameters(join);
    add(stages.back(), plain.makeStage(join, 1));
    add(stages.back(), layout.experts ? expertTime : denseTime);
    add(stages.back(), last);
  }
  // Tensor-parallel ranks have the same activations: each may send a part, which they gather.
  double whole = 2 * shape.tokens() * double(layout.hidden);
  bool inParts = layout.software.transfersInParts > 0 && !layout.sequenceParallel;
  double bytes = whole / (inParts || layout.sequenceParallel ? double(tensor) : 1);
  double gather =
      inParts ? cost::timeOf(cluster, Collective::AllGather, groups[size_t(Axis::Tensor)], whole)
              : 0;
  // A blocking transfer is a send, a receive, a wait and a synchronization of the host.
  bool blocking = layout.software.blockingTransfers > 0 && terms.launches;
  double host = blocking ? 4 * cluster.device.hostSeconds : 0;
  for (StageTime &stage : stages) {
    stage.boundaryBytes = bytes;
    stage.send = layout.pipeline > 1
                     ? cost::sendTime(cluster, layout.gpus / layout.pipeline, bytes) + gather + host
                     : 0;
  }
}

/// Parameters, gradients and optimizer state of a stage's rank.
double Step::parameterBytes(const StageTime &stage) const {
  double ranks = double(std::max<int64_t>(layout.shardRanks, 1));
  double expertRanks =
      std::max(1.0, double(layout.data * layout.context * layout.tensor) / double(layout.expert));
  const Software &s = layout.software;
  auto bytes = [&](double parameters, double shards) {
    double of = parameters * s.parameterBytes / (layout.shardStage >= 3 ? shards : 1);
    double gradients = parameters * s.gradientStateBytes / (layout.shardStage >= 2 ? shards : 1);
    double state = parameters * s.optimizerStateBytes / (layout.shardStage >= 1 ? shards : 1);
    of *= 1 - stage.weightsOnHost;
    gradients *= 1 - stage.gradientsOnHost;
    state *= 1 - stage.stateOnHost;
    // Shards are gathered for a layer at a time; in a pipeline, for the whole stage and step.
    // In either case two layers' stand beside, on their way to or from other ranks.
    double two = 2 / std::max(2.0, double(layout.layers) / double(layout.pipeline));
    double gathered = layout.shardStage < 3 || shards <= 1 ? 0
                      : layout.pipeline > 1                ? 1 + two
                                                           : two;
    of += gathered * parameters * (2 + s.gradientBytes);
    return of + (layout.lowRankTuning ? 0 : gradients + state);
  };
  return bytes(stage.parameters, ranks) +
         bytes(stage.expertParameters, layout.shardStage ? expertRanks : 1);
}

/// Activations of a pipeline rank, with as many microbatches in flight as 1F1B has there.
double Step::activationBytes(size_t rank) const {
  size_t ranks = size_t(layout.pipeline), chunks = size_t(layout.chunks);
  double saved = 0, work = 0;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const StageTime &stage = stages[chunk * ranks + rank];
    saved += stage.savedBytes / double(chunks);
    work = std::max(work, stage.workBytes);
  }
  double inFlight = double(ranks - rank);
  double total = double(chunks) * std::min(inFlight, double(layout.microbatches));
  if (chunks > 1)
    total = std::min(double(ranks - rank - 1) * 2 + double((chunks - 1) * ranks) + 1,
                     double(chunks) * double(layout.microbatches));
  double boundaries = 0;
  if (layout.software.keepsStageOutputs > 0) {
    // All chunks but the model's last one send what they compute.
    double sent = double(rank + 1 < ranks ? chunks : chunks - 1) / double(chunks);
    double microbatches = double(layout.microbatches) * double(chunks);
    boundaries = sent * (total + microbatches) * stages[rank].boundaryBytes;
  }
  return saved * total + boundaries + work;
}

/// Activations, or gradients that are converted for the update: they do not stand together.
double Step::memoryOf(const StageTime &stage, double activations) const {
  double converted =
      std::max(0.0, layout.software.updateGradientBytes - layout.software.gradientStateBytes);
  if (layout.shardStage > 0)
    converted /= double(std::max<int64_t>(layout.shardRanks, 1));
  return parameterBytes(stage) +
         std::max(activations, converted * (stage.parameters + stage.expertParameters));
}

double Step::memoryOf(size_t rank) const {
  StageTime all;
  double state = 0;
  for (size_t stage = rank; stage < stages.size(); stage += size_t(layout.pipeline)) {
    add(all, stages[stage]);
    state += parameterBytes(stages[stage]);
  }
  return state + memoryOf(all, activationBytes(rank)) - parameterBytes(all);
}

/// What a source measures: on which ranks, and whether what tensors take or what is held for them.
void Step::reportMemory(Prediction &result, double measured) const {
  double idle = layout.software.growingSegments > 0 ? idleGrowingSegments : idleSegments;
  result.allocated = measured;
  result.reserved = (1 + idle) * measured;
  result.reportedMemory = layout.reportsReserved ? result.reserved : result.allocated;
  if (layout.reportsLayers)
    result.notes.push_back("memory: of layers alone, which the source counts");
  else if (measured < result.memory)
    result.notes.push_back("memory: of the first " + std::to_string(layout.measuredRanks) +
                           " ranks, which the source measured");
  if (layout.reportsReserved)
    result.notes.push_back("memory: what the allocator holds, which the source measured");
}

/// As few layers recomputed as fit in memory.
void Step::fitRecomputation() {
  double limit = usableMemory * cluster.device.memory;
  auto most = [&] {
    double bytes = 0;
    for (size_t rank = 0; rank < size_t(layout.pipeline); ++rank)
      bytes = std::max(bytes, memoryOf(rank));
    return bytes;
  };
  layout.recomputedLayers = 0;
  makeStages();
  double without = most();
  if (without <= limit)
    return;
  layout.recomputedLayers = 1;
  makeStages();
  double with = most();
  if (with < limit)
    layout.recomputedLayers = (without - limit) / (without - with);
  makeStages();
  layout.notes.push_back(
      llvm::formatv("recompute: {0:P0} of the layers, so that it fits", layout.recomputedLayers));
}

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
      add(all, stages[s]);
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
