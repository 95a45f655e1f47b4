// Bounds of plans from what each layer takes.
#include "lib/plan/LayerTimes.h"

#include "lib/plan/Bound.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace cleave::plan;
namespace cost = cleave::cost;
namespace simulate = cleave::simulate;

KernelTime LayerTimes::sum() const {
  KernelTime sum = shared;
  for (const std::vector<PassTime> *pass : {&forward, &backward})
    for (const PassTime &layer : *pass)
      sum += layer.kernels;
  for (const KernelTime &layer : either)
    sum += layer;
  return sum;
}

simulate::StageCost StageTimes::getCost(bool splitsBackward) const {
  simulate::StageCost cost{0, 0, 0, -1};
  cost.forward = forward.seconds();
  // Times of functions are norms, which are no less together than that of all their kernels.
  // What either pass may run counts as the backward's: in the forward it is no less in any bound,
  // where each stage's forward comes before its backward.
  const double gradients = std::max(backward.seconds(), all.seconds() - cost.forward);
  if (splitsBackward) {
    // More of the rest may belong to the input's gradient. No bound falls by that: what comes
    // before the last weight gradient grows by more than it shrinks.
    cost.input = std::max(backward.chain, backward.transfers);
    cost.weight = gradients - cost.input;
  } else {
    cost.backward = gradients;
  }
  return cost;
}

std::vector<StageTimes> cleave::plan::sumStages(const Space &space, const Shape &shape,
                                                const LayerTimes &times) {
  std::vector<StageTimes> stages;
  std::vector<int64_t> cuts = space.listCuts(shape);
  cuts.push_back(int64_t(times.forward.size()));
  const bool isKnown = shape.recompute != Recompute::Budget;
  const LayerTimes::Recomputed none;
  const auto &[recomputed, saved] = isKnown ? times.recomputed[size_t(shape.recompute)] : none;
  size_t layer = 0;
  for (int64_t cut : cuts) {
    StageTimes &stage = stages.emplace_back();
    for (; layer < size_t(cut); ++layer) {
      PassTime gradients = times.backward[layer];
      if (!recomputed.empty())
        gradients.kernels = {std::max(gradients.kernels.device, recomputed[layer].device),
                             std::max(gradients.kernels.host, recomputed[layer].host)};
      stage.forward += times.forward[layer];
      stage.backward += gradients;
      for (const KernelTime &part :
           {times.forward[layer].kernels, times.backward[layer].kernels, times.either[layer]})
        stage.all += part;
      stage.savedBytes += saved.empty() ? 0 : saved[layer];
    }
  }
  return stages;
}

double cleave::plan::boundShape(const Space &space, const cost::Cluster &cluster,
                                const Shape &shape, const LayerTimes &times, double room) {
  if (times.forward.empty())
    return 0;
  double microbatches = double(space.programs[shape.layout.program].microbatches);
  simulate::CostTable costs;
  costs.stages.clear();
  std::vector<double> savedBytes;
  for (const StageTimes &stage : sumStages(space, shape, times)) {
    costs.stages.push_back(stage.getCost(shape.splitsBackward));
    savedBytes.push_back(stage.savedBytes);
  }
  double least = boundStages(costs, unsigned(shape.layout.pipeline), savedBytes, microbatches,
                             shape.splitsBackward, room);
  return (cluster.device.stepSeconds + least) * (1 - rounding);
}
