//===- StageBudget.cpp - stages within the memory of their ranks --------------===//

#include "lib/pipeline/StageBudget.h"

#include "lib/memory/StepState.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using train::RoleKind;

namespace {
/// The partitions of a stage that trade memory for time.
struct StageFrontier {
  struct Point {
    backward::FunctionPeaks peaks;
    backward::Partition partition;
    int64_t time = 0, hostBytes = 0;
  };
  /// From the least memory to the least time.
  std::vector<Point> points;
  size_t chosen = 0;
  unsigned inFlight = 0;
};

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
      const StageFrontier::Point &point = frontiers[stage].points[frontiers[stage].chosen];
      report.time += point.time;
      report.hostBytes += point.hostBytes;
    }
    return report;
  }

  int64_t getPeakBytes() const {
    int64_t arena = 0, frames = 0;
    for (unsigned stage : stages) {
      const backward::FunctionPeaks &peaks = getPeaks(stage);
      arena = std::max(arena, peaks.arenaBytes);
      frames += peaks.frameBytes * frontiers[stage].inFlight;
    }
    return state.getStateBytes() + state.gradientBytes + arena + frames +
           list.follow(memories).peakBytes;
  }

private:
  const backward::FunctionPeaks &getPeaks(unsigned stage) const {
    return frontiers[stage].points[frontiers[stage].chosen].peaks;
  }

  std::vector<size_t> getChosen() const {
    std::vector<size_t> chosen;
    for (unsigned stage : stages)
      chosen.push_back(frontiers[stage].chosen);
    return chosen;
  }

  void move(unsigned stage, size_t point) {
    frontiers[stage].chosen = point;
    const backward::FunctionPeaks &peaks = getPeaks(stage);
    StageMemory &memory = memories[stage];
    memory.phases = {train::Phase::Forward, train::Phase::Backward};
    memory.functions.assign(2, {});
    memory.functions[0].peakBytes = peaks.forwardBytes;
    memory.functions[0].heldBytes = peaks.heldBytes;
    memory.functions[1].peakBytes = peaks.backwardBytes;
    memory.input.saved = peaks.savedInputBytes;
  }

  /// What its microbatches in flight hold.
  int64_t getHeldBytes(unsigned stage, size_t point) const {
    const backward::FunctionPeaks &peaks = frontiers[stage].points[point].peaks;
    return frontiers[stage].inFlight *
               (peaks.heldBytes + peaks.frameBytes + peaks.savedInputBytes) +
           peaks.arenaBytes + std::max(peaks.forwardBytes, peaks.backwardBytes);
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

static FailureOr<StageFrontier> searchStage(const JointStage &stage, unsigned inFlight,
                                            const StageBudget &budget, unsigned numStages) {
  FailureOr<backward::RecomputeModel> model =
      backward::RecomputeModel::create(stage.graph, budget.level);
  if (failed(model))
    return failure();
  backward::StepForm form;
  form.isLowered = budget.isLowered;
  form.inFlight = std::max(inFlight, 1u);
  form.mayOffload = budget.mayOffload;
  backward::PartitionCosts costs(stage.graph, *model, form, backward::timeOfRecomputing);
  FailureOr<backward::Frontier> found =
      backward::searchPartitions(stage.graph, *model, budget.level, costs, numStages);
  if (failed(found))
    return failure();
  StageFrontier frontier;
  frontier.inFlight = inFlight;
  for (const backward::Frontier::Point &point : found->getPoints())
    frontier.points.push_back({costs.measureFunctions(point.kept), costs.getPartition(point.kept),
                               point.costs.time, point.costs.hostBytes});
  return frontier;
}

/// What stages take of each other does not depend on how they are divided.
static StageMemory countTakenOf(const JointStage &stage) {
  StageMemory memory;
  func::FuncOp function = stage.graph.getFunction();
  memory.input = countTaken(function, RoleKind::Crossing);
  memory.gradient = countTaken(function, RoleKind::CrossingGradient);
  return memory;
}

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
  std::vector<StageFrontier> frontiers(stages.size());
  std::vector<StageMemory> memories;
  llvm::transform(stages, std::back_inserter(memories), countTakenOf);
  StagePartitions result;
  for (unsigned rank = 0; rank < budget.schedule.numRanks(); ++rank) {
    schedule::FrameSlots slots = schedule::assignFrameSlots(budget.schedule, rank);
    RankChoice choice(budget, rank, frontiers, memories);
    for (unsigned stage : choice.getStages()) {
      choice.state.add(stages[stage].graph.getFunction());
      if (func::FuncOp update = stages[stage].update)
        choice.state.add(update);
      FailureOr<StageFrontier> frontier =
          searchStage(stages[stage], slots.numSlots[stage], budget, unsigned(stages.size()));
      if (failed(frontier))
        return failure();
      frontiers[stage] = std::move(*frontier);
    }
    if (!choice.choose()) {
      reportMinimum(choice, rank, budget, location);
      return failure();
    }
    result.ranks.push_back(choice.report());
  }
  for (StageFrontier &frontier : frontiers)
    result.stages.push_back(std::move(frontier.points[frontier.chosen].partition));
  return result;
}
