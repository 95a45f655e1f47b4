//===- StageBudget.cpp - stages within the memory of their ranks --------------===//

#include "lib/pipeline/StageBudget.h"

#include "lib/memory/StepState.h"
#include "lib/pipeline/StageFrontier.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using train::RoleKind;

namespace {
/// One rank and its stages.
class RankChoice {
public:
  RankChoice(const StageBudget &budget, unsigned rank, MutableArrayRef<StageFrontier> frontiers,
             MutableArrayRef<StageMemory> memories)
      : budget(budget), list(budget.schedule, rank), frontiers(frontiers), memories(memories) {
    for (unsigned stage = 0; stage < frontiers.size(); ++stage)
      if (budget.schedule.topology.rankOf(stage) == rank)
        stages.push_back(stage);
  }

  memory::StepState state;
  ArrayRef<unsigned> getStages() const { return stages; }

  /// Takes the better of two ways from the least time to the least memory. False if it never fits;
  /// then what was found with the least memory is chosen.
  bool choose() {
    Found hull = follow(/*isHull=*/true), each = follow(/*isHull=*/false);
    const bool takesHull =
        std::make_pair(hull.getOrder(), hull.time) <= std::make_pair(each.getOrder(), each.time);
    const Found &best = takesHull ? hull : each;
    for (auto [stage, point] : llvm::zip_equal(stages, best.points))
      move(stage, point);
    return best.fits;
  }

  RankBudget report() const {
    RankBudget report{getPeakBytes(), state.getStateBytes()};
    for (unsigned stage : stages) {
      const StageFrontier::Point &point = getPoint(stage);
      report.time += point.time;
      report.hostBytes += point.hostBytes;
    }
    return report;
  }

  int64_t getPeakBytes() const {
    int64_t arena = 0, frames = 0;
    for (unsigned stage : stages) {
      const StageFrontier::Point &point = getPoint(stage);
      arena = std::max(arena, point.arenaBytes);
      frames += point.frameBytes * frontiers[stage].inFlight;
    }
    return state.getStateBytes() + state.gradientBytes + arena + frames +
           list.follow(memories).peakBytes;
  }

  int64_t getGatheredBytes() const { return list.follow(memories).gatheredBytes; }

private:
  struct Found {
    bool fits = false;
    int64_t bytes = 0, time = 0;
    std::vector<size_t> points;

    /// What fits comes first, then what needs least.
    int64_t getOrder() const { return fits ? 0 : bytes; }
  };

  /// Goes from the least time to the least memory, and stops where the rank fits: so what a smaller
  /// budget gets is further on, and needs no more. `isHull`: along the convex hulls.
  Found follow(bool isHull) {
    std::vector<std::vector<size_t>> paths;
    for (unsigned stage : stages) {
      move(stage, frontiers[stage].points.size() - 1);
      paths.push_back(findPath(stage, isHull));
    }
    Found least = describe();
    while (!least.fits) {
      std::optional<size_t> next = findCheapest(paths);
      if (!next)
        break;
      const unsigned stage = stages[*next];
      const size_t from = frontiers[stage].chosen, to = paths[*next].back();
      paths[*next].pop_back();
      move(stage, to);
      Found now = describe();
      if (now.fits && goBack(stage, from, to))
        now = describe();
      if (now.fits || now.bytes < least.bytes)
        least = std::move(now);
    }
    return least;
  }

  Found describe() const {
    Found found{false, getPeakBytes(), 0, {}};
    found.fits = found.bytes <= budget.bytes;
    for (unsigned stage : stages) {
      found.time += getPoint(stage).time;
      found.points.push_back(frontiers[stage].chosen);
    }
    return found;
  }

  const StageFrontier::Point &getPoint(unsigned stage) const {
    return frontiers[stage].points[frontiers[stage].chosen];
  }

  void move(unsigned stage, size_t point) {
    frontiers[stage].chosen = point;
    memories[stage] = getPoint(stage).memory;
  }

  /// What its microbatches in flight hold.
  int64_t getHeldBytes(unsigned stage, size_t point) const {
    const StageFrontier::Point &of = frontiers[stage].points[point];
    int64_t peak = 0;
    for (const memory::FunctionPlan &function : of.memory.functions)
      peak = std::max(peak, function.peakBytes);
    return frontiers[stage].inFlight *
               (of.memory.functions.front().heldBytes + of.frameBytes + of.memory.input.saved) +
           of.arenaBytes + peak;
  }

  double getPrice(unsigned stage, size_t from, size_t to) const {
    const std::vector<StageFrontier::Point> &points = frontiers[stage].points;
    auto bytes = double(getHeldBytes(stage, from) - getHeldBytes(stage, to));
    return double(points[to].time - points[from].time) / std::max(bytes, 1.0);
  }

  /// The partitions of a stage to go through, the next one last: all, or the vertices of the convex
  /// hull, each of which gives up the least time for a byte of all that hold less than the one
  /// before. What lies between costs more for what it saves, however little the next step from
  /// there may cost.
  std::vector<size_t> findPath(unsigned stage, bool isHull) const {
    std::vector<size_t> path;
    for (size_t point = 0; point <= frontiers[stage].chosen; ++point) {
      while (isHull && path.size() > 1 && isAbove(stage, point, path))
        path.pop_back();
      path.push_back(point);
    }
    path.pop_back(); // it is there
    return path;
  }

  /// Whether the last vertex lies above the line from a new one to the one before.
  bool isAbove(unsigned stage, size_t point, llvm::ArrayRef<size_t> path) const {
    return getPrice(stage, point, path.back()) >= getPrice(stage, point, path[path.size() - 2]);
  }

  /// The stage whose next partition costs the least time for a byte, by its place.
  std::optional<size_t> findCheapest(llvm::ArrayRef<std::vector<size_t>> paths) const {
    std::optional<size_t> cheapest;
    double least = 0;
    for (size_t place = 0; place < stages.size(); ++place) {
      if (paths[place].empty())
        continue;
      double price = getPrice(stages[place], frontiers[stages[place]].chosen, paths[place].back());
      if (cheapest && price >= least)
        continue;
      cheapest = place;
      least = price;
    }
    return cheapest;
  }

  /// Of what lies between two partitions, the second of which fits, the one that takes least time.
  /// Whether there is one.
  bool goBack(unsigned stage, size_t from, size_t to) {
    for (size_t point = from - 1; point > to; --point) {
      move(stage, point);
      if (getPeakBytes() <= budget.bytes)
        return true;
    }
    move(stage, to);
    return false;
  }

  const StageBudget &budget;
  RankList list;
  MutableArrayRef<StageFrontier> frontiers;
  MutableArrayRef<StageMemory> memories;
  SmallVector<unsigned> stages;
};
} // namespace

static void reportMinimum(const RankChoice &choice, unsigned rank, const StageBudget &budget,
                          Location location) {
  int64_t least = choice.getPeakBytes();
  InFlightDiagnostic error = emitError(location);
  error << "cannot do with " << memory::describeBytes(budget.bytes) << " of memory: rank " << rank
        << " of schedule '" << budget.schedule.name << "' needs " << memory::describeBytes(least)
        << " (" << least << " bytes) even if all that helps is recomputed"
        << (budget.mayOffload ? " or offloaded" : "") << "; of these ";
  const memory::StepState &state = choice.state;
  state.describe(error);
  if (state.gradientBytes > 0)
    error << memory::describeBytes(state.gradientBytes) << " are gradients, ";
  const int64_t gathered = choice.getGatheredBytes();
  if (gathered > 0)
    error << memory::describeBytes(gathered) << " are gathered parameters, ";
  int64_t values = least - state.getStateBytes() - state.gradientBytes - gathered;
  error << (values < least ? "and " : "all, ") << memory::describeBytes(values)
        << " are values of microbatches";
}

FailureOr<StagePartitions> cleave::pipeline::chooseStagePartitions(ArrayRef<JointStage> stages,
                                                                   const StageBudget &budget,
                                                                   Location location) {
  StageSearch search(stages, budget);
  std::vector<StageFrontier> frontiers(stages.size());
  std::vector<StageMemory> memories = search.getTaken();
  StagePartitions result;
  for (unsigned rank = 0; rank < budget.schedule.numRanks(); ++rank) {
    schedule::FrameSlots slots = schedule::assignFrameSlots(budget.schedule, rank);
    RankChoice choice(budget, rank, frontiers, memories);
    for (unsigned stage : choice.getStages()) {
      choice.state.add(stages[stage].graph.getFunction());
      for (func::FuncOp once : {stages[stage].update, stages[stage].unshard})
        if (once)
          choice.state.add(once);
      if (failed(search.run(stage, slots.numSlots[stage], frontiers[stage])))
        return failure();
    }
    if (!choice.choose()) {
      reportMinimum(choice, rank, budget, location);
      return failure();
    }
    result.ranks.push_back(choice.report());
  }
  for (auto [stage, frontier] : llvm::enumerate(frontiers)) {
    auto partition = search.getPartition(unsigned(stage), frontier.points[frontier.chosen].kept);
    if (failed(partition))
      return failure();
    result.stages.push_back(std::move(*partition));
  }
  return result;
}
