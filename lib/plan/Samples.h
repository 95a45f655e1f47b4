//===- Samples.h - stages of any length from a few that were measured -*- C++ -*-===//
//
// Layers between the first and the last of a program are often equal. A stage that has more of
// them than one that was carried out takes what each further layer adds: docs/planner.md.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLAN_SAMPLES_H
#define CLEAVE_LIB_PLAN_SAMPLES_H

#include "lib/plan/Space.h"
#include "lib/schedule/simulate/ProgramCosts.h"

#include <algorithm>
#include <compare>
#include <map>

namespace cleave::plan {

/// Sums in another order differ by rounding.
constexpr double rounding = 1e-9;

/// Seconds of kernels, and of the host that launches them.
struct KernelTime {
  double device = 0, host = 0;
  /// Of a stream of communications beside, where it is not known what waits for what.
  double stream = 0;

  KernelTime &operator+=(const KernelTime &other) {
    device += other.device;
    host += other.host;
    stream += other.stream;
    return *this;
  }
  /// Of all of them in one function.
  double seconds() const { return cost::timeOfLaunched(std::max(device, stream), host); }
};

/// Times by which those of several ops are as long as that of one with all of their bytes, and no
/// longer than they are: nothing takes time to begin.
cost::Cluster makeLinear(cost::Cluster cluster);

/// What a stage of a pipeline takes in a microbatch, and what it holds. `device` of a pass counts
/// its kernels and what it waits for communication.
struct StageSample {
  KernelTime forward, backward, input, weight;
  /// As of simulate::StageWork.
  double savedBytes = 0, heldBytes = 0, forwardBytes = 0, backwardBytes = 0;
  /// While it runs, beside what microbatches keep; of a longer stage no less.
  double microbatchBytes = 0;
  /// Of parameters that are gathered once per step.
  double gatheredBytes = 0;
  /// As they are sharded by Programs::sampleStages.
  double parameterBytes = 0, gradientBytes = 0, stateBytes = 0;
  /// The rest is of Programs::sampleAny alone. Kernels of all backwards, which take longer beside
  /// communications.
  KernelTime kernels;
  /// Once per step, but for what does not grow with the layers.
  KernelTime unshard, update;
  double reduced = 0; ///< seconds of communications of gradients, once per step
  /// What the input gradient makes of gradients for the weight gradient.
  double heldGradients = 0;
};

/// Of each stage that was carried out what it takes.
std::vector<StageSample> describeStages(const cost::Cluster &cluster,
                                        const simulate::ProgramWork &work);

/// The same at the least, whatever waits for what. Kernels follow each other, and so do
/// communications: both add up, layer by layer. What waits for what does not: where a layer's
/// communications reach into the next one, two layers may wait for more, or for less, than twice
/// what one waits for.
std::vector<StageSample> describeStreams(const cost::Cluster &cluster,
                                         const simulate::ProgramWork &work);

/// What stages take whatever they save and recompute, from a program that recomputes nothing:
/// `least` is its work without what either pass may run, `work` all of it. `waits`: whether passes
/// wait for communications as they do there, or take no less than describeStreams() says.
/// `hasOnce`: whether what runs once per step is that of the layout.
std::vector<StageSample> describeAny(const cost::Cluster &cluster,
                                     const simulate::ProgramWork &work,
                                     const simulate::ProgramWork &least, bool waits, bool hasOnce);

/// Of a run of equal layers, so many are carried out.
constexpr size_t maxSampledRun = 3;

/// Stages of few layers that were carried out.
class StageSamples {
public:
  /// Of a program whose layers have these kinds: equal ones the same. `sharding` is the samples'.
  StageSamples(std::vector<unsigned> kinds, Sharding sharding)
      : kinds(std::move(kinds)), sharding(sharding) {}

  /// Whether ranks that divide the batch shard parameters and optimizer states.
  bool hasShards() const { return sharding == Sharding::FsdpOnce || hasGathers(); }
  /// Whether passes gather parameters and scatter gradients.
  bool hasGathers() const { return sharding == Sharding::Fsdp; }
  /// Whether optimizer states lie as in a layout.
  bool hasStates(const Layout &layout) const {
    return layout.sharding == Sharding::Replicated || layout.sharding == sharding || hasShards();
  }
  /// Whether stages of a layout have room for as much while they run: gradients that are scattered
  /// at once are there for a shorter time.
  bool hasTemporary(const Layout &layout) const {
    return hasGathers() || layout.sharding != Sharding::Fsdp;
  }

  /// Adds a stage of layers of these kinds.
  void add(const std::vector<unsigned> &stage, const StageSample &sample) {
    stages[stage] = sample;
  }
  /// What the layers [begin, end) take; none where too little is known. A stage that is longer than
  /// those that were carried out takes for each further layer what one of its kind adds there.
  std::optional<StageSample> get(int64_t begin, int64_t end) const;
  /// The stages from which that follows, of a program whose layers have these kinds.
  static std::vector<std::vector<unsigned>> listNeeded(llvm::ArrayRef<unsigned> kinds,
                                                       int64_t begin, int64_t end);

private:
  using Kinds = std::vector<unsigned>;
  const StageSample *find(llvm::ArrayRef<unsigned> stage) const;
  std::optional<StageSample> getFirst(llvm::ArrayRef<unsigned> stage) const;
  std::optional<StageSample> getMiddle(llvm::ArrayRef<unsigned> stage) const;
  std::optional<StageSample> getLast(llvm::ArrayRef<unsigned> stage) const;
  std::optional<StageSample> getWhole() const;

  Kinds kinds;
  Sharding sharding;
  std::map<Kinds, StageSample> stages;
};

/// What a shape's stages take by their samples.
struct StageTable {
  simulate::CostTable costs; ///< in milliseconds
  /// By stage what it holds from beginning to end, and while it runs; bytes.
  std::vector<double> held, temporary;
  /// Parameters that are gathered once per step, as far as samples say; bytes.
  std::vector<double> gathered;
  /// As of StageSample.
  std::vector<KernelTime> kernels;
  std::vector<double> heldGradients;
};
/// None where the stages do not follow from samples.
std::optional<StageTable> tabulateStages(const Space &space, const cost::Cluster &cluster,
                                         const Shape &shape, const StageSamples &samples);

/// What a plan takes at the least, in seconds and in bytes of a rank.
struct PlanBound {
  double seconds = 0, memory = 0;
};

/// Of each schedule of a shape, in the order of `space`; of one that cannot be built both are
/// infinite. Empty where its stages do not follow from samples.
std::vector<PlanBound> boundSchedules(const Space &space, const cost::Cluster &cluster,
                                      const Shape &shape, const StageSamples &samples);

/// The shortest step of any schedule of a shape that fits in `memory`, in seconds, without a look
/// at one: 0 where its stages do not follow from samples.
double boundSampled(const Space &space, const cost::Cluster &cluster, const Shape &shape,
                    const StageSamples &samples, double memory);

/// The passes of a plan's microbatches in `stages` stages, as --build-schedule orders them.
llvm::Expected<schedule::Schedule> orderPasses(const Plan &plan, const Space &space,
                                               unsigned stages);

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SAMPLES_H
