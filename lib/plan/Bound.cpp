// The bounds of docs/planner.md.
#include "lib/plan/Bound.h"

#include "lib/support/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::plan;
using cleave::makeError;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;
namespace simulate = cleave::simulate;

/// The shortest time of a product that ranks divide evenly along some of its dimensions.
static double leastSeconds(const cost::Device &device, const cost::MatrixProduct &product,
                           double parts) {
  double best = cost::timeOf(device, product);
  auto ranks = int64_t(parts);
  for (int64_t batch = 1; batch <= ranks; ++batch)
    for (int64_t rows = 1; ranks % batch == 0 && rows <= ranks / batch; ++rows)
      for (int64_t columns = 1; ranks / batch % rows == 0 && columns <= ranks / batch / rows;
           ++columns) {
        if (ranks / batch / rows % columns)
          continue;
        cost::MatrixProduct part = product;
        part.batch /= double(batch);
        part.m /= double(rows);
        part.n /= double(columns);
        part.k /= double(ranks / batch / rows / columns);
        best = std::min(best, cost::timeOf(device, part));
      }
  return best;
}

double cleave::plan::leastSeconds(const cost::Device &device, const cost::OpWork &op,
                                  double parts) {
  double launched = op.kernels * device.kernelSeconds;
  switch (op.kind) {
  case cost::OpWork::Product:
    return ::leastSeconds(device, op.product, parts) + launched;
  case cost::OpWork::Attention:
    // Without tiles none are idle.
    return cost::attentionTime(device, op.flops / parts, /*tiles=*/0, op.width, op.rate) + launched;
  case cost::OpWork::Bytes:
    return cost::timeOfBytes(device, op.bytes / parts) + launched;
  case cost::OpWork::Communication:
    return 0;
  }
  llvm_unreachable("not a kind");
}

double cleave::plan::boundPipeline(double seconds, double ranks, double microbatches,
                                   bool isPlain) {
  if (!isPlain)
    return microbatches * seconds / ranks;
  return seconds / (1 - std::pow(1 - 1 / microbatches, ranks));
}

double cleave::plan::boundSchedule(const simulate::CostTable &costs,
                                   const schedule::Topology &topology, double microbatches,
                                   bool splitsBackward, bool hasUpdates) {
  unsigned stages = topology.numStages();
  auto crosses = [&](unsigned stage) {
    return topology.rankOf(stage) != topology.rankOf(stage + 1);
  };
  // When a microbatch reaches a stage, and how long its gradient takes from there to the front.
  std::vector<double> start(stages, 0), way(stages, 0);
  for (unsigned stage = 0; stage + 1 < stages; ++stage) {
    const simulate::StageCost &cost = costs.of(stage);
    double back = splitsBackward ? cost.input : cost.fullBackward();
    start[stage + 1] = start[stage] + cost.forward + (crosses(stage) ? cost.sendForward : 0);
    way[stage + 1] = way[stage] + back + (crosses(stage) ? costs.of(stage + 1).sendBackward : 0);
  }
  unsigned front = topology.rankOf(0);
  auto updateOf = [&](unsigned rank) {
    double sum = 0;
    for (unsigned stage : topology.stagesOf(rank))
      sum += hasUpdates ? costs.of(stage).optimizer : 0;
    return sum;
  };
  double after = updateOf(front) + (splitsBackward ? costs.of(0).weight : 0);
  double bound = 0;
  for (unsigned rank = 0; rank < topology.numRanks(); ++rank) {
    // Stages come in rising order: none of the rank starts earlier, or is nearer to the front.
    unsigned first = topology.stagesOf(rank).front();
    double work = 0, weights = 0;
    for (unsigned stage : topology.stagesOf(rank)) {
      const simulate::StageCost &cost = costs.of(stage);
      work += cost.forward + (splitsBackward ? cost.input + cost.weight : cost.fullBackward());
      weights += splitsBackward ? cost.weight : 0;
    }
    bound = std::max(bound, start[first] + microbatches * work + updateOf(rank));
    // The last gradient of its first stage goes on to the front; weight gradients may come later.
    bound = std::max(bound, start[first] + microbatches * (work - weights) + way[first] + after);
  }
  return bound;
}

double cleave::plan::boundResidence(const simulate::CostTable &costs,
                                    llvm::ArrayRef<double> savedBytes, double microbatches,
                                    double room) {
  // Bytes times the time for which they are there: what the ranks have room for, times the step.
  double later = 0, sum = 0;
  for (auto [cost, bytes] : llvm::reverse(llvm::zip_equal(costs.stages, savedBytes))) {
    double gradients = cost.backward < 0 ? cost.input : cost.backward;
    sum += bytes * (later + gradients);
    later += cost.forward + gradients;
  }
  return sum > 0 ? microbatches * sum / std::max(room, 0.0) : 0;
}

double cleave::plan::boundStages(const simulate::CostTable &costs, unsigned ranks,
                                 llvm::ArrayRef<double> savedBytes, double microbatches,
                                 bool splitsBackward, double room) {
  double least = std::numeric_limits<double>::infinity();
  for (auto style : {schedule::TopologyStyle::Loop, schedule::TopologyStyle::V}) {
    auto topology = schedule::Topology::get(style, ranks, unsigned(costs.stages.size()));
    if (!topology) {
      llvm::consumeError(topology.takeError());
      continue;
    }
    least = std::min(least, boundSchedule(costs, *topology, microbatches, splitsBackward,
                                          /*hasUpdates=*/false));
  }
  return std::max(least, boundResidence(costs, savedBytes, microbatches, room));
}

namespace {
/// Runs the lists of all ranks, each as far as what it needs is there.
class OrderClock {
  using Action = schedule::Action;
  using ActionKind = schedule::ActionKind;

public:
  OrderClock(const simulate::CostTable &costs, const schedule::Schedule &order)
      : costs(costs), order(order), positions(order.numRanks(), 0), clocks(order.numRanks(), 0),
        starts(order.numRanks(), -1), ends(order.numStages(), -1) {
    for (std::vector<double> *times : {&outputs, &gradients})
      times->assign(size_t(order.numStages()) * order.numMicrobatches, -1);
  }

  llvm::Expected<double> run() {
    for (bool hasRun = true; hasRun;) {
      hasRun = false;
      for (unsigned rank = 0; rank < order.numRanks(); ++rank)
        for (; positions[rank] < order.ranks[rank].size() && execute(rank); ++positions[rank])
          hasRun = true;
    }
    for (unsigned rank = 0; rank < order.numRanks(); ++rank)
      if (positions[rank] < order.ranks[rank].size())
        return makeError("the schedule cannot complete");
    double latest = 0;
    for (unsigned rank = 0; rank < order.numRanks(); ++rank)
      latest = std::max(latest, update(rank));
    return latest;
  }

  /// By rank, when its first pass began that is not a forward's; negative: it has none.
  const std::vector<double> &getStarts() const { return starts; }

private:
  double &at(std::vector<double> &times, unsigned stage, Action leaf) {
    return times[size_t(stage) * order.numMicrobatches + leaf.index];
  }
  double crosses(unsigned from, unsigned to, double seconds) const {
    return order.topology.rankOf(from) == order.topology.rankOf(to) ? 0 : seconds;
  }

  /// When what a pass needs is there; negative: not yet.
  double findStart(Action leaf) {
    unsigned stage = leaf.stage;
    auto from = [&](std::vector<double> &times, unsigned other, double transfer) {
      double made = at(times, other, leaf);
      return made < 0 ? made : made + crosses(other, stage, transfer);
    };
    switch (leaf.kind) {
    case ActionKind::Forward:
      return stage == 0 ? costs.of(0).unshard
                        : from(outputs, stage - 1, costs.of(stage - 1).sendForward);
    case ActionKind::Backward:
    case ActionKind::BackwardInput: {
      double own = at(outputs, stage, leaf);
      if (own < 0 || stage + 1 == order.numStages())
        return own;
      double next = from(gradients, stage + 1, costs.of(stage + 1).sendBackward);
      return next < 0 ? next : std::max(own, next);
    }
    case ActionKind::BackwardWeight:
      return at(gradients, stage, leaf);
    default:
      return 0;
    }
  }

  double costOf(Action leaf) const {
    switch (leaf.kind) {
    case ActionKind::Forward:
      return costs.of(leaf.stage).forward;
    case ActionKind::Backward:
      return costs.of(leaf.stage).fullBackward();
    case ActionKind::BackwardInput:
      return costs.of(leaf.stage).input;
    case ActionKind::BackwardWeight:
      return costs.of(leaf.stage).weight;
    default:
      return 0;
    }
  }

  bool execute(unsigned rank) {
    Action action = order.ranks[rank][positions[rank]];
    double start = clocks[rank], sum = 0, largest = 0;
    bool isThere = true, isForward = true;
    order.forEachLeaf(action, [&](Action leaf) {
      isForward &= leaf.kind == ActionKind::Forward;
      double needed = findStart(leaf);
      isThere &= needed >= 0;
      start = std::max(start, needed);
      sum += costOf(leaf);
      largest = std::max(largest, costOf(leaf));
    });
    if (!isThere)
      return false;
    if (!isForward && starts[rank] < 0)
      starts[rank] = start;
    clocks[rank] = start + largest + (1 - costs.overlap) * (sum - largest);
    order.forEachLeaf(action, [&](Action leaf) {
      if (leaf.kind == ActionKind::Forward)
        at(outputs, leaf.stage, leaf) = clocks[rank];
      if (leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardInput)
        at(gradients, leaf.stage, leaf) = clocks[rank];
      if (schedule::isCompute(leaf.kind))
        ends[leaf.stage] = clocks[rank];
    });
    return true;
  }

  /// When a rank has updated its stages. Their gradients are reduced one after the other, in the
  /// order in which they are complete; of a single rank beside the passes.
  double update(unsigned rank) const {
    std::vector<unsigned> stages = order.topology.stagesOf(rank), complete = stages;
    llvm::stable_sort(complete, [&](unsigned a, unsigned b) { return ends[a] < ends[b]; });
    std::vector<double> reduced = ends;
    double stream = 0, clock = clocks[rank];
    for (unsigned stage : complete)
      reduced[stage] = stream =
          std::max(stream, ends[stage]) + (order.numRanks() > 1 ? costs.of(stage).reduce : 0);
    for (unsigned stage : stages)
      clock = std::max(clock, reduced[stage]) + costs.of(stage).optimizer;
    return clock;
  }

  const simulate::CostTable &costs;
  const schedule::Schedule &order;
  std::vector<size_t> positions;
  std::vector<double> clocks, starts;
  /// By stage, when its last pass ended.
  std::vector<double> ends;
  /// By stage and microbatch: when a forward, and an input gradient, ended; negative: not yet.
  std::vector<double> outputs, gradients;
};
} // namespace

llvm::Expected<double> cleave::plan::boundOrder(const simulate::CostTable &costs,
                                                const schedule::Schedule &order,
                                                std::vector<double> *starts) {
  OrderClock clock(costs, order);
  auto makespan = clock.run();
  if (starts)
    *starts = clock.getStarts();
  return makespan;
}

double cleave::plan::timeAfterPasses(const simulate::CostTable &costs,
                                     const schedule::Schedule &order, unsigned rank) {
  unsigned last = order.numStages();
  for (schedule::Action action : order.ranks[rank])
    order.forEachLeaf(action, [&](schedule::Action leaf) {
      if (schedule::isCompute(leaf.kind))
        last = leaf.stage;
    });
  double seconds = 0;
  for (unsigned stage : order.topology.stagesOf(rank)) {
    if (stage == last && order.numRanks() > 1)
      seconds = std::max(seconds, costs.of(stage).reduce);
    seconds += costs.of(stage).optimizer;
  }
  return seconds;
}
