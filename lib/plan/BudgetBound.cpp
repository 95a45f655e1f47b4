// Bounds of cuts and schedules whose backwards recompute whatever serves them.
#include "lib/plan/BudgetBound.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/simulate/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <queue>

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
    for (auto [list, of] :
         {std::pair(&curves.layers, &stage.kernels), {&curves.streams, &stage.streams}})
      for (int64_t layer = begin; layer < end && !list->empty(); ++layer) {
        const RecomputeCurve *curve = (*list)[size_t(layer)].get();
        auto same = llvm::find_if(*of, [&](auto &each) { return each.first == curve; });
        if (same == of->end())
          of->emplace_back(curve, 1);
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
  copySeconds = cost::timeOfHostCopy(cluster.device, 1);
  // Where it is not known it has no end.
  hostRoom = cluster.hostMemory > 0 ? cluster.hostMemory : forEver;
  for (double ratio = 1.0 / 32; ratio <= 32; ratio *= 2)
    prices.push_back(ratio * copySeconds);
}

double BudgetBound::Stage::at(Curves Stage::*curves, double price) const {
  double sum = price * passedBytes;
  for (auto [curve, count] : this->*curves)
    sum += count * curve->at(price);
  return sum;
}

/// Seconds that backwards of one microbatch recompute at the least, in stages whose saved bytes,
/// times these weights, have `room` together; with what they offload at the highest price of a
/// byte. No end where that is too little.
KernelTime BudgetBound::leastAt(llvm::ArrayRef<Weight> weights, double room,
                                double highestPrice) const {
  return {leastAt(weights, room, highestPrice, &Stage::kernels), 0,
          curves.streams.empty() ? 0 : leastAt(weights, room, highestPrice, &Stage::streams)};
}

/// The same of kernels, or of a stream of communications.
double BudgetBound::leastAt(llvm::ArrayRef<Weight> weights, double room, double highestPrice,
                            Curves Stage::*curves) const {
  const bool offloads = !std::isinf(highestPrice);
  double least = 0, highest = 0;
  for (auto [stage, weight] : weights) {
    least += weight * stages[stage].passedBytes;
    for (auto [curve, count] : stages[stage].*curves) {
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
      sum += stages[stage].at(curves, std::min(price * weight, highestPrice));
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

static void raiseTo(KernelTime &time, const KernelTime &other) {
  time.device = std::max(time.device, other.device);
  time.stream = std::max(time.stream, other.stream);
}

void BudgetBound::Recomputation::raise(const Recomputation &other) {
  for (auto [mine, others] : llvm::zip_equal(atPrice, other.atPrice))
    raiseTo(mine, others);
  raiseTo(always, other.always);
}

/// Whether nothing fits.
bool BudgetBound::Recomputation::isTooLarge() const {
  return std::isinf(always.device) || std::isinf(atPrice.front().device);
}

/// `hostRoom`: bytes beside `room` for what is offloaded.
BudgetBound::Recomputation BudgetBound::leastRecomputed(llvm::ArrayRef<Weight> weights, double room,
                                                        double hostRoom) const {
  Recomputation least;
  for (double price : prices)
    least.atPrice.push_back(leastAt(weights, room, price));
  if (copySeconds > 0 && !std::isinf(hostRoom))
    least.always = leastAt(weights, room + hostRoom, forEver);
  return least;
}

/// The least that `timeOf` says of any number of bytes that a microbatch offloads: of what it
/// recomputes beside them, and of the bytes. The more there are, the longer copies take, and the
/// less has to be recomputed: of a range of numbers the least bytes and the least that is
/// recomputed are a bound.
double BudgetBound::leastOffloading(const Recomputation &recomputed,
                                    llvm::function_ref<double(KernelTime, double)> timeOf) const {
  if (recomputed.isTooLarge())
    return forEver;
  if (copySeconds == 0)
    return timeOf(recomputed.atPrice.front(), 0);
  auto timeFrom = [&](double few, double many) {
    KernelTime rest = recomputed.always;
    for (auto [price, least] : llvm::zip_equal(prices, recomputed.atPrice))
      raiseTo(rest, {least.device - price * many, 0, least.stream - price * many});
    return timeOf(rest, few);
  };
  double enough = 0; // with which nothing else is recomputed
  for (auto [price, least] : llvm::zip_equal(prices, recomputed.atPrice))
    enough = std::max({enough, least.device / price, least.stream / price});
  struct Range {
    double bound, few, many;
    bool operator>(const Range &other) const { return bound > other.bound; }
  };
  std::priority_queue<Range, std::vector<Range>, std::greater<>> ranges;
  ranges.push({timeFrom(0, enough), 0, enough});
  constexpr unsigned splits = 40;
  for (unsigned split = 0; split < splits && enough > 0; ++split) {
    const Range least = ranges.top();
    ranges.pop();
    const double middle = (least.few + least.many) / 2;
    ranges.push({timeFrom(least.few, middle), least.few, middle});
    ranges.push({timeFrom(middle, least.many), middle, least.many});
  }
  return ranges.top().bound;
}

/// Kernels of the backwards of one microbatch in stages of a rank, beside communications. Times of
/// functions are norms, which are no less than that of their sums.
double BudgetBound::timeKernels(llvm::ArrayRef<unsigned> list, KernelTime recomputed,
                                const StageTable *table) const {
  KernelTime sum = recomputed, sampled = recomputed;
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
  // A function ends when all of its copies have.
  auto timeWith = [&](KernelTime recomputed, double offloaded) {
    KernelTime sum = kernels;
    sum += recomputed;
    const double copies = offloaded * copySeconds;
    return microbatches / ranks *
           std::max(sum.seconds(),
                    std::max(forwards, copies) + std::max(timeKernels(all, recomputed), copies));
  };
  // Each stage keeps one microbatch when the last stage's first forward ends.
  std::vector<Weight> once, resident(stages.size());
  for (unsigned stage : all)
    once.push_back({stage, 1});
  const double hostRoom = ranks * this->hostRoom;
  const Recomputation always = leastRecomputed(once, room, hostRoom);
  // Bytes times seconds for which they are there, as in boundResidence.
  double later = 0;
  for (unsigned stage : llvm::reverse(all)) {
    const simulate::StageCost &cost = costs.of(stage);
    const double gradients = cost.backward < 0 ? cost.input : cost.backward;
    resident[stage] = {stage, later + gradients};
    later += cost.forward + gradients;
  }
  auto timeIn = [&](double step) {
    const double times = step / microbatches;
    Recomputation recomputed = leastRecomputed(resident, times * room, times * hostRoom);
    recomputed.raise(always);
    return leastOffloading(recomputed, timeWith);
  };
  return finish(findStep(std::max(base, leastOffloading(always, timeWith)), timeIn));
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
    auto timeWith = [&](KernelTime recomputed, double offloaded) {
      KernelTime all = kernels;
      all += recomputed;
      const double copies = offloaded * copySeconds;
      const double backwards = std::max({gradients, timeKernels(list, recomputed, &table), copies});
      return after + std::max(known.of(0).unshard +
                                  microbatches * std::max(all.seconds(),
                                                          std::max(forwards, copies) + backwards),
                              start + microbatches * backwards);
    };
    Recomputation recomputed;
    recomputed.atPrice.resize(prices.size());
    for (const Resident &each : resident)
      recomputed.raise(leastRecomputed(each.saved, room - each.heldBytes, hostRoom));
    least = std::max(least, leastOffloading(recomputed, timeWith));
    if (std::isinf(least))
      return forEver;
    if (isKnown)
      known.stages[list.front()].backward =
          std::max(gradients, timeKernels(list, recomputed.atPrice.front(), &table));
  }
  if (isKnown)
    least = std::max(least, llvm::cantFail(boundOrder(known, *order)));
  return finish(least);
}

double BudgetBound::finish(double seconds) const {
  return (cluster.device.stepSeconds + seconds) * (1 - rounding);
}
