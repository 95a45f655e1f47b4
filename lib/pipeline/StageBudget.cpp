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

  /// Goes from the least time to the least memory, and stops where the rank fits: so what a smaller
  /// budget gets is further on, and needs no more. False if it never fits; then what was found with
  /// the least memory is chosen.
  bool choose() {
    for (unsigned stage : stages)
      move(stage, frontiers[stage].points.size() - 1);
    int64_t bytes = getPeakBytes(), least = bytes;
    std::vector<size_t> best = getChosen();
    while (bytes > budget.bytes) {
      std::optional<unsigned> next = findCheapest();
      if (!next) {
        for (auto [stage, point] : llvm::zip_equal(stages, best))
          move(stage, point);
        return false;
      }
      move(*next, frontiers[*next].chosen - 1);
      bytes = getPeakBytes();
      if (bytes < least) {
        least = bytes;
        best = getChosen();
      }
    }
    return true;
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

private:
  const StageFrontier::Point &getPoint(unsigned stage) const {
    return frontiers[stage].points[frontiers[stage].chosen];
  }

  std::vector<size_t> getChosen() const {
    std::vector<size_t> chosen;
    for (unsigned stage : stages)
      chosen.push_back(frontiers[stage].chosen);
    return chosen;
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

  /// The stage whose next partition costs the least time for a byte.
  std::optional<unsigned> findCheapest() const {
    std::optional<unsigned> cheapest;
    double least = 0;
    for (unsigned stage : stages) {
      const StageFrontier &frontier = frontiers[stage];
      if (frontier.chosen == 0)
        continue;
      double time =
          double(frontier.points[frontier.chosen - 1].time - frontier.points[frontier.chosen].time);
      double bytes = double(std::max<int64_t>(
          getHeldBytes(stage, frontier.chosen) - getHeldBytes(stage, frontier.chosen - 1), 1));
      if (cheapest && time / bytes >= least)
        continue;
      cheapest = stage;
      least = time / bytes;
    }
    return cheapest;
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
  int64_t values = least - state.getStateBytes() - state.gradientBytes;
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
      if (func::FuncOp update = stages[stage].update)
        choice.state.add(update);
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
