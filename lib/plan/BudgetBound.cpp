// Bounds of cuts and schedules whose backwards recompute whatever serves them.
#include "lib/plan/BudgetBound.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/simulate/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace cleave::plan;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;
namespace simulate = cleave::simulate;
using schedule::Action;
using schedule::ActionKind;

static constexpr double forEver = std::numeric_limits<double>::infinity();

BudgetBound::BudgetBound(const Space &space, const cost::Cluster &cluster, const Shape &shape,
                         const LayerTimes &times, LayerCurves known, bool offloads)
    : space(space), cluster(cluster), shape(shape), curves(std::move(known)),
      microbatches(double(space.programs[shape.layout.program].microbatches)) {
  this->shape.recompute = Recompute::Budget;
  costs.stages.clear();
  std::vector<int64_t> ends = space.listCuts(shape);
  const auto layers = int64_t(curves.layers.size());
  ends.push_back(layers);
  int64_t begin = 0;
  for (auto [end, sum] : llvm::zip_equal(ends, sumStages(space, this->shape, times))) {
    Stage &stage = stages.emplace_back();
    stage.times = sum;
    stage.layers = double(end - begin);
    costs.stages.push_back(sum.getCost(shape.splitsBackward));
    for (int64_t layer = begin; layer < end; ++layer) {
      const RecomputeCurve *curve = curves.layers[size_t(layer)].get();
      auto same = llvm::find_if(stage.curves, [&](auto &each) { return each.first == curve; });
      if (same == stage.curves.end())
        stage.curves.emplace_back(curve, 1);
      else
        same->second += 1;
    }
    stage.passedBytes = curves.passedBytes * (double(begin > 0) - double(end < layers));
    begin = end;
  }
  if (!offloads) {
    prices.push_back(forEver);
    return;
  }
  copySeconds = cost::timeOfHostCopy(cluster.device, 2);
  for (double ratio = 1.0 / 64; ratio <= 16; ratio *= 2)
    prices.push_back(ratio * copySeconds);
}

double BudgetBound::Stage::at(double price) const {
  double sum = price * passedBytes;
  for (auto [curve, count] : curves)
    sum += count * curve->at(price);
  return sum;
}

/// Seconds that backwards of one microbatch recompute at the least, in stages whose saved bytes,
/// times these weights, have `room` together; with what they offload at the highest price of a
/// byte. No end where that is too little.
double BudgetBound::leastRecomputed(llvm::ArrayRef<Weight> weights, double room,
                                    double highestPrice) const {
  const bool offloads = !std::isinf(highestPrice);
  double least = 0, highest = 0;
  for (auto [stage, weight] : weights) {
    least += weight * stages[stage].passedBytes;
    for (auto [curve, count] : stages[stage].curves) {
      least += weight * count * curve->getLeastBytes();
      if (weight > 0)
        highest = std::max(highest, (offloads ? highestPrice : curve->getHighestPrice()) / weight);
    }
  }
  // All may be offloaded, but what is there anyway.
  constexpr double ofRounding = 0.5; // bytes
  if (offloads ? room < -ofRounding : least > room * (1 + rounding) + ofRounding)
    return forEver;
  room = std::max(room, 0.0);
  if (highest == 0)
    return 0;
  // By the price of the room: a lower bound at any price, concave, so that it has one summit.
  auto at = [&](double logarithm) {
    const double price = highest * std::exp2(logarithm);
    double sum = -price * room;
    for (auto [stage, weight] : weights)
      sum += stages[stage].at(std::min(price * weight, highestPrice));
    return sum;
  };
  constexpr unsigned steps = 24;
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double low = -24, high = 0; // of a curve's prices the least is 2^-16 of the highest
  double left = high - golden * (high - low), right = low + golden * (high - low);
  double ofLeft = at(left), ofRight = at(right), most = std::max({0.0, ofLeft, ofRight});
  for (unsigned step = 0; step < steps; ++step) {
    if (ofLeft > ofRight) {
      high = std::exchange(right, left);
      ofRight = ofLeft;
      left = high - golden * (high - low);
      ofLeft = at(left);
    } else {
      low = std::exchange(left, right);
      ofLeft = ofRight;
      right = low + golden * (high - low);
      ofRight = at(right);
    }
    most = std::max({most, ofLeft, ofRight});
  }
  return most;
}

/// Kernels of the backwards of one microbatch in stages of a rank. Times of functions are norms,
/// which are no less than that of their sums.
double BudgetBound::timeKernels(llvm::ArrayRef<unsigned> list, double recomputed,
                                const StageTable *table) const {
  KernelTime sum{recomputed, 0}, sampled{recomputed, 0};
  for (unsigned stage : list) {
    sum += stages[stage].times.backward.kernels;
    if (table)
      sampled += table->kernels[stage];
  }
  return std::max(sum.seconds(), sampled.seconds());
}

/// The shortest step that takes no less than `timeIn` says of it: the longer a step is, the less
/// has to be recomputed in it. No less than `low`.
double BudgetBound::findStep(double low, llvm::function_ref<double(double)> timeIn) const {
  if (std::isinf(low))
    return forEver;
  double high = timeIn(low);
  if (high <= low)
    return low;
  constexpr unsigned halvings = 16, maxDoublings = 64;
  double step = low;
  for (unsigned count = 0; std::isinf(high); high = timeIn(step)) {
    if (++count > maxDoublings)
      return forEver;
    step *= 2;
  }
  high = std::max(high, step);
  for (unsigned half = 0; half < halvings; ++half) {
    const double middle = (low + high) / 2;
    (timeIn(middle) > middle ? low : high) = middle;
  }
  return low;
}

double BudgetBound::boundAll(double room) const {
  const auto ranks = double(shape.layout.pipeline);
  std::vector<unsigned> all(stages.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> nothing(stages.size(), 0);
  const double base =
      boundStages(costs, unsigned(ranks), nothing, microbatches, shape.splitsBackward, forEver);
  double forwards = 0;
  KernelTime kernels;
  for (auto [stage, cost] : llvm::zip_equal(stages, costs.stages)) {
    forwards += cost.forward;
    kernels += stage.times.all;
  }
  auto timeWith = [&](double recomputed) {
    KernelTime sum = kernels;
    sum.device += recomputed;
    return microbatches / ranks * std::max(sum.seconds(), forwards + timeKernels(all, recomputed));
  };
  // Each stage keeps one microbatch when the last stage's first forward ends.
  std::vector<Weight> once, resident(stages.size());
  for (unsigned stage : all)
    once.push_back({stage, 1});
  std::vector<double> always;
  for (double price : prices)
    always.push_back(leastRecomputed(once, room, price));
  // Bytes times seconds for which they are there, as in boundResidence.
  double later = 0;
  for (unsigned stage : llvm::reverse(all)) {
    const simulate::StageCost &cost = costs.of(stage);
    const double gradients = cost.backward < 0 ? cost.input : cost.backward;
    resident[stage] = {stage, later + gradients};
    later += cost.forward + gradients;
  }
  auto timeIn = [&](double step) {
    double most = 0;
    for (auto [price, least] : llvm::zip_equal(prices, always)) {
      double recomputed =
          std::max(least, leastRecomputed(resident, step * room / microbatches, price));
      // What a step's copies may offload of a microbatch on all ranks.
      if (copySeconds > 0)
        recomputed -= price * ranks * step / (microbatches * copySeconds);
      most = std::max(most, recomputed);
    }
    return timeWith(most);
  };
  double low = base;
  if (copySeconds == 0)
    low = std::max(low, timeWith(always.front()));
  return finish(findStep(low, timeIn));
}

/// Of each stage of a rank, how many microbatches keep what they save, and bytes that others hold
/// between the halves of their backwards: where most layers are saved, where most is held, and
/// where both are most if nothing is recomputed.
std::vector<BudgetBound::Resident> BudgetBound::listResident(const schedule::Schedule &order,
                                                             unsigned rank,
                                                             const StageTable &table) const {
  std::vector<double> now(stages.size(), 0);
  std::array<Resident, 3> most;
  std::array<double, 3> highest;
  highest.fill(-1);
  double layers = 0, held = 0, saved = 0;
  auto keep = [&](unsigned stage, double count) {
    now[stage] += count;
    layers += count * stages[stage].layers;
    saved += count * table.costs.of(stage).forwardMemory;
  };
  // Where the input gradient computes nothing, as of the first stage, all is kept for the weights.
  auto isWhole = [&](Action leaf) {
    return leaf.kind == ActionKind::Backward || table.costs.of(leaf.stage).input == 0;
  };
  for (Action action : order.ranks[rank]) {
    // Of passes that run side by side it does not matter here which one ends first.
    order.forEachLeaf(action, [&](Action leaf) {
      if (leaf.kind == ActionKind::BackwardInput && !isWhole(leaf)) {
        keep(leaf.stage, -1);
        held += table.heldGradients[leaf.stage];
      }
      if (leaf.kind == ActionKind::BackwardWeight && !isWhole(leaf))
        held -= table.heldGradients[leaf.stage];
      if (leaf.kind == ActionKind::Backward ||
          (leaf.kind == ActionKind::BackwardWeight && isWhole(leaf)))
        keep(leaf.stage, -1);
    });
    order.forEachLeaf(action, [&](Action leaf) {
      if (leaf.kind == ActionKind::Forward)
        keep(leaf.stage, 1);
    });
    for (auto [place, weight] : llvm::enumerate(std::array{layers, held, saved + held})) {
      if (weight <= highest[place])
        continue;
      highest[place] = weight;
      most[place].heldBytes = held;
      most[place].saved.clear();
      for (unsigned stage : order.topology.stagesOf(rank))
        most[place].saved.push_back({stage, now[stage]});
    }
  }
  return {most.begin(), most.end()};
}

/// The forwards of a rank from its first backward on.
static double timeLateForwards(const schedule::Schedule &order, unsigned rank,
                               const simulate::CostTable &costs) {
  bool isLate = false;
  double seconds = 0;
  for (Action action : order.ranks[rank]) {
    order.forEachLeaf(action, [&](Action leaf) { isLate |= leaf.kind != ActionKind::Forward; });
    order.forEachLeaf(action, [&](Action leaf) {
      if (isLate && leaf.kind == ActionKind::Forward)
        seconds += costs.of(leaf.stage).forward;
    });
  }
  return seconds;
}

/// What stages take that recompute nothing, in seconds: the more of what their layers and their
/// samples say. What recomputes takes no less. Of halves samples alone say which op is in which:
/// all of the first stage's are in the second.
simulate::CostTable BudgetBound::mergeCosts(const simulate::CostTable &samples) const {
  constexpr double milliseconds = 1e-3;
  simulate::CostTable merged;
  merged.stages.clear();
  for (auto [stage, sample] : llvm::zip_equal(stages, samples.stages)) {
    simulate::StageCost &cost = merged.stages.emplace_back(sample);
    for (double *seconds :
         {&cost.forward, &cost.input, &cost.weight, &cost.backward, &cost.sendForward,
          &cost.sendBackward, &cost.unshard, &cost.reduce, &cost.optimizer})
      *seconds *= milliseconds;
    cost.forward = std::max(cost.forward, stage.times.forward.seconds());
    if (!shape.splitsBackward)
      cost.backward = std::max(cost.backward, stage.times.backward.seconds());
  }
  return merged;
}

double BudgetBound::boundSchedule(const std::string &name, const StageTable &table,
                                  double memory) const {
  auto order = orderPasses({shape, name}, space, unsigned(stages.size()));
  if (!order) {
    llvm::consumeError(order.takeError()); // carrying it out says why
    return forEver;
  }
  simulate::CostTable known = mergeCosts(table.costs);
  std::vector<double> starts;
  auto makespan = boundOrder(known, *order, &starts);
  if (!makespan) {
    llvm::consumeError(makespan.takeError());
    return forEver;
  }
  double least = *makespan;
  schedule::Schedule gathering = *order;
  if (order->numRanks() > 1 && llvm::any_of(table.gathered, [](double bytes) { return bytes > 0; }))
    llvm::cantFail(schedule::addUnshards(gathering));
  // Of a rank with one stage it is known which one recomputes, of a backward in one piece when.
  const bool isKnown =
      stages.size() == order->numRanks() && !shape.splitsBackward && copySeconds == 0;
  for (unsigned rank = 0; rank < order->numRanks(); ++rank) {
    std::vector<unsigned> list = order->topology.stagesOf(rank);
    double room = memory - simulate::measureGathered(gathering, rank, table.gathered);
    double forwards = 0, gradients = 0, temporary = 0;
    KernelTime kernels;
    for (unsigned stage : list) {
      room -= table.held[stage];
      temporary = std::max(temporary, table.temporary[stage]);
      forwards += known.of(stage).forward;
      gradients += known.of(stage).fullBackward();
      kernels += stages[stage].times.all;
    }
    room -= temporary;
    const std::vector<Resident> resident = listResident(*order, rank, table);
    // All backwards come after the first: what ran before that is over by then.
    const double start = std::max(starts[rank], 0.0) + timeLateForwards(*order, rank, known);
    const double after = timeAfterPasses(known, *order, rank);
    auto timeWith = [&](double recomputed) {
      KernelTime all = kernels;
      all.device += recomputed;
      const double backwards = std::max(gradients, timeKernels(list, recomputed, &table));
      return after + std::max(known.of(0).unshard +
                                  microbatches * std::max(all.seconds(), forwards + backwards),
                              start + microbatches * backwards);
    };
    std::vector<double> recomputed;
    for (double price : prices) {
      double &most = recomputed.emplace_back(0);
      for (const Resident &each : resident)
        most = std::max(most, leastRecomputed(each.saved, room - each.heldBytes, price));
      if (std::isinf(most))
        return forEver;
    }
    if (copySeconds == 0) {
      least = std::max(least, timeWith(recomputed.front()));
    } else {
      // In a longer step more can be copied.
      least = findStep(std::max(least, timeWith(0)), [&](double step) {
        double most = 0;
        for (auto [price, each] : llvm::zip_equal(prices, recomputed))
          most = std::max(most, each - price * step / (microbatches * copySeconds));
        return timeWith(most);
      });
    }
    if (isKnown)
      known.stages[list.front()].backward =
          std::max(gradients, timeKernels(list, recomputed.front(), &table));
  }
  if (isKnown)
    least = std::max(least, llvm::cantFail(boundOrder(known, *order)));
  return finish(least);
}

double BudgetBound::finish(double seconds) const {
  return (cluster.device.stepSeconds + seconds) * (1 - rounding);
}
