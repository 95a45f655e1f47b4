//===- StepMemory.cpp - what the ranks of a step hold ------------------------===//

#include "lib/predict/Step.h"

#include <algorithm>

using namespace cleave;
using namespace cleave::predict;

/// What stays free: the context, libraries, fragments.
static constexpr double usableMemory = 0.92;

/// What PyTorch's caching allocator holds beyond what tensors take: segments are multiples of 2
/// MiB, blocks below 10 MiB share segments of 20 MiB, and a block that is split leaves a rest which
/// larger tensors do not fit into. Of 176 ranks that reported both (Aceso's and Mist's), half held
/// 11 % more, nine of ten between 3 and 16 %; segments that grow in place leave next to none.
static constexpr double idleSegments = 0.11, idleGrowingSegments = 0.03;

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
    all += stages[stage];
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
