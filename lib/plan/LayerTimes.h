//===- LayerTimes.h - what the layers of a microbatch take at the least -*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_LAYERTIMES_H
#define CLEAVE_LIB_PLAN_LAYERTIMES_H

#include "lib/plan/Samples.h"

#include <algorithm>
#include <array>
#include <limits>

namespace cleave::plan {

/// What the ops of a function take at the least, in whatever order they run.
struct PassTime {
  KernelTime kernels;
  /// Of ops and communications each of which needs the one before, from what a layer takes to what
  /// it passes on.
  double chain = 0;
  /// Of communications on the way there, which follow each other.
  double transfers = 0;

  PassTime &operator+=(const PassTime &other) {
    kernels += other.kernels;
    chain += other.chain;
    transfers += other.transfers;
    return *this;
  }
  double seconds() const {
    return cost::timeOfLaunched(std::max({kernels.device, chain, transfers}), kernels.host);
  }
};

/// One microbatch, at the least, by layer: what comes before the layers counts as part of the
/// first, what comes after them as part of the last.
struct LayerTimes {
  std::vector<PassTime> forward, backward;
  /// Kernels that the backward needs and that depend on the forward alone: either may run them.
  std::vector<KernelTime> either;
  /// What the kernels of backwards take that recompute, and bytes that one microbatch keeps, by
  /// Recompute; empty where that is not known.
  struct Recomputed {
    std::vector<KernelTime> backward;
    std::vector<double> savedBytes;
  };
  std::array<Recomputed, 3> recomputed;
  /// Kernels of what each layer that needs it computes for itself: masks, tables of positions.
  KernelTime shared;

  /// All kernels but those that are recomputed.
  KernelTime sum() const;
};

/// What a stage takes at the least.
struct StageTimes {
  PassTime forward, backward;
  /// All kernels, those that either pass may run among them.
  KernelTime all;
  double savedBytes = 0;

  /// As a schedule sees it, in seconds.
  simulate::StageCost getCost(bool splitsBackward) const;
};

/// By stage of a shape; of a program that can be cut.
std::vector<StageTimes> sumStages(const Space &space, const Shape &shape, const LayerTimes &times);

/// The shortest step of any schedule of a shape whose layers take at least these times: the least
/// of the ways in which schedules lay the stages on ranks. 0 of a program that cannot be cut.
/// `room`: bytes that all ranks of the pipeline together have for what microbatches keep.
double boundShape(const Space &space, const cost::Cluster &cluster, const Shape &shape,
                  const LayerTimes &times, double room = std::numeric_limits<double>::infinity());

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_LAYERTIMES_H
