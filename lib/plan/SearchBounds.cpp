// What a search knows of plans that it has not simulated.
#include "lib/plan/SearchEntry.h"

#include "lib/plan/Bound.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace cleave::plan;
namespace cost = cleave::cost;

std::string cleave::plan::describe(const Layout &layout) {
  return llvm::formatv("dp={0} tp={1} cp={2} ep={3}{4}", layout.data, layout.tensor, layout.context,
                       layout.experts, layout.sequence ? " sequence=yes" : "");
}

double Search::boundLayout(const Layout &layout) const {
  double microbatches = double(space.programs[layout.program].microbatches);
  double seconds = programs.timeGlobal(layout.program, layout.numParts()).sum().seconds();
  double step = boundPipeline(seconds, double(layout.pipeline), microbatches, /*isPlain=*/false);
  if (layout.sharding == Sharding::Fsdp) {
    // Of the ranks of the pipeline one holds this much at least. A function takes as long as its
    // communications, which follow each other.
    double passes = 0;
    auto add = [&](cost::Group group, double bytes) {
      passes += timeOf(cluster, cost::Collective::AllGather, group, bytes) +
                timeOf(cluster, cost::Collective::ReduceScatter, group, bytes);
    };
    double parts = double(layout.tensor * layout.pipeline);
    auto [bytes, ofExperts] = programs.getShardedBytes(layout.program, layout.numParts());
    int64_t stride = layout.dataInside ? 1 : layout.tensor;
    // Along two axes that divide the batch they may gather at once, or one after the other.
    if (layout.data == 1 || layout.experts == 1)
      add({layout.numShards(), stride}, bytes / parts);
    add({layout.numDataShards() * layout.context, stride * layout.experts},
        ofExperts / (parts * double(layout.experts)));
    step = std::max(step, microbatches * passes);
  }
  return (cluster.device.stepSeconds + step) * (1 - rounding);
}

/// Each of these bytes is on some rank of the pipeline, in as many parts as the axes divide.
double Search::boundMemory(const Layout &layout) const {
  double parts = double(layout.tensor * layout.pipeline);
  ProgramBytes experts;
  for (const ProgramBytes &layer : space.programs[layout.program].expertBytes)
    experts += layer;
  ProgramBytes all = programs.getBytes(layout.program);
  bool shardsStates = layout.sharding != Sharding::Replicated;
  // Gradients that are scattered once are whole until then.
  bool shardsGradients = layout.sharding == Sharding::Fsdp;
  auto least = [&](double ProgramBytes::*kind, bool isSharded) {
    double stacked = experts.*kind / double(layout.experts), rest = all.*kind - experts.*kind;
    if (isSharded)
      return stacked / double(layout.numDataShards() * layout.context) +
             rest / double(layout.numShards());
    return stacked + rest;
  };
  return (least(&ProgramBytes::parameters, layout.shardsParameters()) +
          least(&ProgramBytes::gradients, shardsGradients) +
          least(&ProgramBytes::states, shardsStates)) /
         parts;
}

/// What ranks of the pipeline hold on average: each stage keeps what one microbatch saves at least.
double Search::boundMemory(const Shape &shape, const LayerTimes &times) const {
  const std::vector<double> &saved = times.recomputed[size_t(shape.recompute)].savedBytes;
  return (boundMemory(shape.layout) +
          std::accumulate(saved.begin(), saved.end(), 0.0) / double(shape.layout.pipeline)) *
         (1 - rounding);
}

/// Bytes of all ranks of the pipeline beside the state; no end where that is not to count.
double Search::findRoom(const Layout &layout) const {
  if (options.isExhaustive)
    return std::numeric_limits<double>::infinity();
  return double(layout.pipeline) * (options.memory - boundMemory(layout));
}

std::vector<PlanBound> Search::boundBy(const StageSamples *samples, const Shape &shape) const {
  if (!samples)
    return {};
  return boundSchedules(space, cluster, shape, *samples);
}

double Search::boundLayers(const Shape &shape) {
  const Layout &layout = shape.layout;
  double room = findRoom(layout);
  double bound = boundShape(space, cluster, shape,
                            programs.timeGlobal(layout.program, layout.numParts()), room);
  if (std::optional<LayerTimes> times = programs.timeUnshared(layout))
    bound = std::max(bound, boundShape(space, cluster, shape, *times, room));
  if (std::optional<LayerTimes> times = programs.timeUndivided(layout)) {
    times->recomputed[size_t(shape.recompute)] =
        programs.recomputeUndivided(layout, shape.recompute);
    bound = std::max(bound, boundShape(space, cluster, shape, *times, room));
  }
  if (auto times = programs.partition(layout))
    bound = std::max(bound, boundShape(space, cluster, shape, *times, room));
  else
    llvm::consumeError(times.takeError());
  return bound;
}

/// Raises the bounds of a shape by those of its schedules.
void Search::raiseBounds(Work &work, llvm::ArrayRef<PlanBound> schedules) {
  if (schedules.empty() || options.isExhaustive)
    return;
  PlanBound least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const PlanBound &bound : schedules) {
    if (bound.memory <= options.memory)
      least.seconds = std::min(least.seconds, bound.seconds);
    least.memory = std::min(least.memory, bound.memory);
  }
  work.bound = std::max(work.bound, least.seconds);
  work.memory = std::max(work.memory, least.memory);
}

/// Raises the bounds of a shape by what samples of its stages say; once that is known, by what they
/// say with FSDP's collectives.
void Search::refine(Entry &entry, size_t number) {
  Work &work = entry.works[number];
  if (work.schedules) {
    work.hasGathers = true;
    for (auto [bound, other] :
         llvm::zip(*work.schedules, boundBy(programs.sampleGathering(work.shape), work.shape)))
      bound = {std::max(bound.seconds, other.seconds), std::max(bound.memory, other.memory)};
    raiseBounds(work, *work.schedules);
    return;
  }
  work.schedules = boundBy(programs.sampleStages(work.shape), work.shape);
  if (options.isExhaustive)
    raiseSampled(entry, number);
  for (auto [index, bound] : llvm::enumerate(*work.schedules)) {
    PlanBound least;
    if (work.undivided && !work.undivided->empty())
      least = (*work.undivided)[index];
    // Bounds of layers hold for what fits.
    if (bound.memory <= options.memory)
      least.seconds = std::max(least.seconds, work.layers);
    if (bound.seconds > 0 && bound.seconds < least.seconds * (1 - rounding))
      result.violations.push_back(describe(work.shape.layout) + ": " +
                                  llvm::formatv("{0:e6} s by stages of few layers, bound {1:e6} s",
                                                bound.seconds, least.seconds)
                                      .str());
    if (bound.memory < least.memory * (1 - rounding))
      result.violations.push_back(
          describe(work.shape.layout) + ": " +
          llvm::formatv("{0:e6} bytes by stages of few layers, bound {1:e6} bytes", bound.memory,
                        least.memory)
              .str());
  }
  raiseBounds(work, *work.schedules);
}

/// The same by those of the program whose batch is not divided.
void Search::raiseSampled(Entry &entry, size_t number) {
  Work &work = entry.works[number];
  if (work.undivided)
    return;
  // Of all schedules together it is known at once what they take; most shapes are slower by that.
  if (!work.hasStages) {
    work.hasStages = true;
    if (const StageSamples *samples = programs.sampleUndivided(work.shape))
      work.bound = std::max(work.bound, boundSampled(space, cluster, work.shape, *samples,
                                                     options.isExhaustive
                                                         ? std::numeric_limits<double>::infinity()
                                                         : options.memory));
    if (!options.isExhaustive)
      return;
  }
  work.undivided = boundBy(programs.sampleUndivided(work.shape), work.shape);
  if (work.undivided->empty())
    raiseRecomputed(entry, work.shape.recompute);
  else
    raiseBounds(work, *work.undivided);
}

/// Raises the bounds of a layout by what each layer takes and keeps.
void Search::raiseBounds(Entry &entry, const LayerTimes &times) {
  double least = std::numeric_limits<double>::infinity();
  double room = findRoom(entry.report.layout);
  for (Work &work : entry.works) {
    work.layers = std::max(work.layers, boundShape(space, cluster, work.shape, times, room));
    work.bound = std::max(work.bound, work.layers);
    work.memory = std::max(work.memory, boundMemory(work.shape, times));
    if (work.memory > options.memory && !options.isExhaustive)
      work.bound = std::numeric_limits<double>::infinity();
    least = std::min(least, work.bound);
  }
  if (!std::isinf(least))
    entry.report.bound = std::max(entry.report.bound, least);
}

/// The same by the program whose experts are not shared.
void Search::raiseUnshared(Entry &entry) {
  if (entry.hasUnshared)
    return;
  entry.hasUnshared = true;
  entry.unshared = programs.timeUnshared(entry.report.layout);
  if (entry.unshared)
    raiseBounds(entry, *entry.unshared);
}

/// The same by the program whose batch is not divided.
void Search::raiseUndivided(Entry &entry) {
  if (entry.hasUndivided)
    return;
  entry.hasUndivided = true;
  entry.undivided = programs.timeUndivided(entry.report.layout);
  if (entry.undivided)
    raiseBounds(entry, *entry.undivided);
}

/// The same by its stages that recompute so.
void Search::raiseRecomputed(Entry &entry, Recompute recompute) {
  auto number = size_t(recompute);
  if (entry.isRecomputed[number])
    return;
  entry.isRecomputed[number] = true;
  if (!entry.undivided)
    return;
  entry.undivided->recomputed[number] = programs.recomputeUndivided(entry.report.layout, recompute);
  if (!entry.undivided->recomputed[number].backward.empty())
    raiseBounds(entry, *entry.undivided);
}

/// Compares what is known of a layout's layers to what was before: it must not be less.
void Search::check(const Entry &entry, const LayerTimes &before, const LayerTimes &now) {
  auto compare = [&](llvm::StringRef what, double found, double bound) {
    if (found < bound * (1 - rounding))
      result.violations.push_back(
          describe(entry.report.layout) + ": " +
          llvm::formatv("{0} take {1:e6} s, bound {2:e6} s", what, found, bound).str());
  };
  KernelTime sum = now.sum(), least = before.sum();
  compare("kernels", sum.device, least.device);
  compare("launches", sum.host, least.host);
  if (before.forward.size() != now.forward.size())
    return; // one of them is not known by layer
  for (auto [pass, name] :
       {std::pair(&LayerTimes::forward, "forward"), std::pair(&LayerTimes::backward, "backward")})
    for (auto [layer, times] : llvm::enumerate(llvm::zip_equal(before.*pass, now.*pass))) {
      const auto &[bound, found] = times;
      std::string where = llvm::formatv(" of the {0} of layer {1}", name, layer);
      compare("kernels" + where, found.kernels.device, bound.kernels.device);
      compare("launches" + where, found.kernels.host, bound.kernels.host);
      // Of a layer that passes on several values nothing else is known.
      if (found.chain == 0)
        continue;
      compare("ops one after the other" + where, found.chain, bound.chain);
      compare("communications" + where, found.transfers, bound.transfers);
    }
  for (const auto &[bound, found] : llvm::zip_equal(before.recomputed, now.recomputed)) {
    if (bound.backward.empty() || found.backward.empty())
      continue;
    for (size_t layer = 0; layer < found.backward.size(); ++layer) {
      std::string where = llvm::formatv(" of the backward of layer {0}, which recomputes", layer);
      compare("kernels" + where, found.backward[layer].device, bound.backward[layer].device);
      compare("launches" + where, found.backward[layer].host, bound.backward[layer].host);
      if (found.savedBytes[layer] < bound.savedBytes[layer] * (1 - rounding))
        result.violations.push_back(describe(entry.report.layout) + ": " +
                                    llvm::formatv("layer {0} keeps {1} bytes, bound {2}", layer,
                                                  found.savedBytes[layer], bound.savedBytes[layer])
                                        .str());
    }
  }
}
