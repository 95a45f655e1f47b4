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

#include <compare>
#include <map>

namespace cleave::plan {

/// Sums in another order differ by rounding.
constexpr double rounding = 1e-9;

/// Seconds of kernels, and of the host that launches them.
struct KernelTime {
  double device = 0, host = 0;

  KernelTime &operator+=(const KernelTime &other) {
    device += other.device;
    host += other.host;
    return *this;
  }
  /// Of all of them in one function.
  double seconds() const { return cost::timeOfLaunched(device, host); }
};

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
};

/// Of each stage that was carried out what it takes.
std::vector<StageSample> describeStages(const cost::Cluster &cluster,
                                        const simulate::ProgramWork &work);

/// Stages that were carried out, of a program whose layers are equal but for the first and the
/// last.
class StageSamples {
public:
  StageSamples(int64_t layers, bool isSharded) : layers(layers), isSharded(isSharded) {}

  /// Whether ranks that divide the batch shard parameters and optimizer states.
  bool hasShards() const { return isSharded; }

  /// Adds a stage of so many equal layers and, where it has them, the first and the last.
  void add(bool hasFirst, int64_t count, bool hasLast, const StageSample &stage) {
    stages[{hasFirst, hasLast}][count] = stage;
  }
  /// What the layers [begin, end) take; none where too little is known. A stage that is longer than
  /// those that were carried out takes for each further layer what the last one adds to them.
  std::optional<StageSample> get(int64_t begin, int64_t end) const;

private:
  struct Kind {
    bool hasFirst, hasLast;
    auto operator<=>(const Kind &) const = default;
  };
  int64_t layers;
  bool isSharded;
  std::map<Kind, std::map<int64_t, StageSample>> stages; // by their equal layers
};

/// What a plan takes at the least, in seconds and in bytes of a rank.
struct PlanBound {
  double seconds = 0, memory = 0;
};

/// Of each schedule of a shape, in the order of `space`; of one that cannot be built both are
/// infinite. Empty where its stages do not follow from samples.
std::vector<PlanBound> boundSchedules(const Space &space, const cost::Cluster &cluster,
                                      const Shape &shape, const StageSamples &samples);

/// The passes of a plan's microbatches in `stages` stages, as --build-schedule orders them.
llvm::Expected<schedule::Schedule> orderPasses(const Plan &plan, const Space &space,
                                               unsigned stages);

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SAMPLES_H
