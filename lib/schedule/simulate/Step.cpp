// A step from the times of a program's functions and the simulation of its schedule.
#include "lib/schedule/simulate/Step.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace cleave::simulate;
using namespace cleave::schedule;
namespace cost = cleave::cost;

static bool hasAny(const Schedule &schedule, ActionKind kind) {
  for (const std::vector<Action> &list : schedule.ranks)
    for (Action action : list) {
      bool found = false;
      schedule.forEachLeaf(action, [&](Action leaf) { found |= leaf.kind == kind; });
      if (found)
        return true;
    }
  return false;
}

bool cleave::simulate::hasUpdates(const Schedule &schedule) {
  return hasAny(schedule, ActionKind::OptimizerStep);
}

bool cleave::simulate::hasReductions(const Schedule &schedule) {
  return hasAny(schedule, ActionKind::ReduceGrad);
}

double Step::maxMemory() const {
  double most = 0;
  for (const RankMemory &rank : memory)
    most = std::max(most, rank.sum());
  return most;
}

double Step::maxHostMemory() const {
  double most = 0;
  for (const RankMemory &rank : memory)
    most = std::max(most, rank.host);
  return most;
}

namespace {
/// How often a rank runs a function of one of its stages.
struct FunctionRuns {
  const FunctionWork *work;
  const FunctionTime *time;
  double runs;
  /// Whether other functions may run beside it: an unshard or a reduction that the schedule places.
  bool isBeside = false;
};

/// Adds up where the seconds of a rank go.
class RankSummary {
public:
  RankSummary(const cost::Cluster &cluster, const ProgramWork &program)
      : cluster(cluster), program(program), exposed(program.groups.size(), 0),
        sent(program.groups.size(), 0), byOp(program.names.size(), 0) {}

  void add(const FunctionRuns &function) {
    if (!function.isBeside)
      seconds += function.runs * function.time->seconds;
    for (auto [sum, each] : llvm::zip_equal(exposed, function.time->exposed))
      sum += function.isBeside ? 0 : function.runs * each;
    if (!function.isBeside)
      copies.exposed += function.runs * function.time->exposedCopies;
    for (const OpWork &op : *function.work) {
      if (op.isEvent)
        continue;
      bool communicates = op.kind == OpWork::Communication;
      cost::Group group = communicates ? program.groups[op.group].ranks : cost::Group();
      double launches = communicates ? 0 : op.kernels * cluster.device.kernelSeconds;
      double runs = op.isOnce ? 1 : function.runs;
      flops += runs * cost::flopsOf(op);
      if (communicates)
        sent[op.group] += runs * cost::sentBytes(op, group);
      double each = cost::timeOf(cluster, op, group);
      copies.bytes += runs * op.hostBytes;
      copies.seconds += op.hostBytes > 0 ? runs * each : 0;
      byOp[op.name] += runs * (each + launches);
    }
  }

  const cost::Cluster &cluster;
  const ProgramWork &program;
  double seconds = 0, flops = 0;
  std::vector<double> exposed, sent, byOp;
  HostCopies copies;
};
} // namespace

/// The functions that a rank runs in a step. A schedule without updates has them after it.
static std::vector<FunctionRuns> listRuns(const ProgramWork &program, const Schedule &schedule,
                                          llvm::ArrayRef<StageTime> times, unsigned rank) {
  std::map<std::pair<unsigned, ActionKind>, double> counts;
  for (Action action : schedule.ranks[rank])
    schedule.forEachLeaf(action, [&](Action leaf) {
      if (hasStage(leaf.kind))
        ++counts[{leaf.stage, leaf.kind}];
    });
  bool places = hasUpdates(schedule);
  if (!places)
    for (unsigned stage = 0; stage < schedule.numStages(); ++stage)
      if (schedule.topology.rankOf(stage) == rank)
        for (ActionKind kind :
             {ActionKind::Unshard, ActionKind::ReduceGrad, ActionKind::OptimizerStep})
          counts[{stage, kind}] = std::max(counts[{stage, kind}], 1.0);
  std::vector<FunctionRuns> runs;
  for (const auto &[key, count] : counts) {
    const StageWork &work = program.stages[key.first];
    const StageTime &time = times[key.first];
    switch (key.second) {
    case ActionKind::Forward:
      runs.push_back({&work.forward, &time.forward, count});
      break;
    case ActionKind::Backward:
      if (work.hasBackward) {
        runs.push_back({&work.backward, &time.backward, count});
        break;
      }
      runs.push_back({&work.input, &time.input, count});
      runs.push_back({&work.weight, &time.weight, count});
      break;
    case ActionKind::BackwardInput:
      runs.push_back({&work.input, &time.input, count});
      break;
    case ActionKind::BackwardWeight:
      runs.push_back({&work.weight, &time.weight, count});
      break;
    case ActionKind::Unshard:
      runs.push_back({&work.unshard, &time.unshard, count, places});
      break;
    case ActionKind::ReduceGrad:
      runs.push_back({&work.reduce, &time.reduce, count, places});
      break;
    case ActionKind::OptimizerStep:
      runs.push_back({&work.update, &time.update, count});
      break;
    default:
      break;
    }
  }
  return runs;
}

double cleave::simulate::measureGathered(const Schedule &schedule, unsigned rank,
                                         llvm::ArrayRef<double> gathered) {
  double sum = 0, most = 0, all = 0;
  for (Action action : schedule.ranks[rank])
    schedule.forEachLeaf(action, [&](Action leaf) {
      if (leaf.kind == ActionKind::Unshard)
        sum += gathered[leaf.stage];
      if (leaf.kind == ActionKind::Reshard)
        sum -= gathered[leaf.stage];
      most = std::max(most, sum);
    });
  for (unsigned stage = 0; stage < schedule.numStages(); ++stage)
    if (schedule.topology.rankOf(stage) == rank)
      all += gathered[stage];
  return hasAny(schedule, ActionKind::Unshard) ? most : all;
}

static RankMemory measureMemory(const ProgramWork &program, const Schedule &schedule,
                                const Metrics &metrics, unsigned rank) {
  RankMemory memory;
  memory.activations = metrics.peakMemory[rank];
  std::vector<double> gathered;
  for (const StageWork &stage : program.stages)
    gathered.push_back(stage.gatheredBytes);
  const double unsharded = measureGathered(schedule, rank, gathered);
  memory.state.parameters = unsharded;
  for (unsigned stage = 0; stage < schedule.numStages(); ++stage) {
    if (schedule.topology.rankOf(stage) != rank)
      continue;
    const StageWork &work = program.stages[stage];
    memory.state.parameters += work.state.parameters;
    memory.state.gradients += work.state.gradients;
    memory.state.optimizer += work.state.optimizer;
    memory.state.others += work.state.others;
    memory.work = std::max(memory.work, work.workBytes);
  }
  if (program.measureList && schedule.numRanks() > 1)
    memory.messages = std::max(program.measureList(program, schedule, rank) - memory.activations -
                                   memory.work - unsharded,
                               0.0);
  memory.host = measureHostMemory(program, schedule, rank);
  return memory;
}

/// Seconds of what runs once per step and is not in the schedule, on the rank that takes longest.
static double timeOncePerStep(const Schedule &schedule, llvm::ArrayRef<StageTime> times) {
  std::vector<double> byRank(schedule.numRanks(), 0);
  for (unsigned stage = 0; stage < schedule.numStages(); ++stage)
    byRank[schedule.topology.rankOf(stage)] +=
        times[stage].unshard.seconds + times[stage].reduce.seconds + times[stage].update.seconds;
  return *std::max_element(byRank.begin(), byRank.end());
}

static constexpr double milliseconds = 1e-3;

static double addSeconds(const cost::Cluster &cluster, const Schedule &schedule,
                         llvm::ArrayRef<StageTime> times, double makespan) {
  double seconds = makespan * milliseconds + cluster.device.stepSeconds;
  return hasUpdates(schedule) ? seconds : seconds + timeOncePerStep(schedule, times);
}

Step cleave::simulate::describeStep(const cost::Cluster &cluster, const ProgramWork &program,
                                    const Schedule &schedule, llvm::ArrayRef<StageTime> times,
                                    const Metrics &metrics) {
  Step step;
  step.other = cluster.device.stepSeconds;
  step.seconds = addSeconds(cluster, schedule, times, metrics.makespan);
  step.lowest = step.seconds * (1 - cluster.error);
  step.highest = step.seconds * (1 + cluster.error);

  unsigned busiest =
      unsigned(std::max_element(metrics.busy.begin(), metrics.busy.end()) - metrics.busy.begin());
  RankSummary summary(cluster, program);
  for (const FunctionRuns &function : listRuns(program, schedule, times, busiest))
    summary.add(function);
  step.copies = summary.copies;
  step.compute = summary.seconds - step.copies.exposed;
  step.rankFlops = summary.flops;
  for (auto [group, seconds, bytes] :
       llvm::zip_equal(program.groups, summary.exposed, summary.sent)) {
    step.compute -= seconds;
    if (group.ranks.size <= 1)
      continue;
    step.exposed.push_back({group.axes, seconds});
    step.sent.push_back({group.axes, bytes});
  }
  for (unsigned stage = 0; stage < schedule.numStages(); ++stage)
    if (schedule.topology.rankOf(stage) == busiest)
      step.savedBytes += program.stages[stage].savedBytes;
  double transfers = metrics.exposedCommunication[busiest] * milliseconds;
  if (schedule.numRanks() > 1)
    step.exposed.push_back({"pipeline", transfers});
  step.bubble = std::max(step.seconds - step.other - summary.seconds - transfers, 0.0);
  for (auto [name, seconds] : llvm::zip_equal(program.names, summary.byOp))
    if (seconds > 0)
      step.ops.push_back({name, seconds});
  llvm::stable_sort(step.ops, [](const Part &a, const Part &b) { return a.seconds > b.seconds; });

  double microbatches = schedule.numMicrobatches;
  double replicas = double(program.devices) / schedule.numRanks();
  for (const StageWork &stage : program.stages)
    step.flops += stage.modelFlops * microbatches * replicas;
  const cost::Device &device = cluster.device;
  double peak = program.getWidth() == cost::Width::Bits32 ? device.flops32 : device.flops16;
  if (step.seconds > 0) {
    step.mfu = step.flops / (step.seconds * peak * double(program.devices));
    step.examplesPerSecond = program.examples * microbatches / step.seconds;
    step.tokensPerSecond = program.tokens * microbatches / step.seconds;
  }
  for (unsigned rank = 0; rank < schedule.numRanks(); ++rank)
    step.memory.push_back(measureMemory(program, schedule, metrics, rank));
  return step;
}

llvm::Expected<Step> cleave::simulate::predictStep(const cost::Cluster &cluster,
                                                   const ProgramWork &program,
                                                   const Schedule &schedule,
                                                   const RunOptions &options) {
  std::vector<StageTime> times = timeStages(cluster, program, options);
  auto timeline = simulate(schedule, costsOfStages(cluster, program, times), options.simulation);
  if (!timeline)
    return timeline.takeError();
  return describeStep(cluster, program, schedule, times, measure(schedule, *timeline));
}

/// The seconds of `predictStep` alone: where they go, and the memory, take several times as long.
static llvm::Expected<double> predictSeconds(const cost::Cluster &cluster,
                                             const ProgramWork &program, const Schedule &schedule,
                                             const RunOptions &options) {
  std::vector<StageTime> times = timeStages(cluster, program, options);
  auto timeline = simulate(schedule, costsOfStages(cluster, program, times), options.simulation);
  if (!timeline)
    return timeline.takeError();
  return addSeconds(cluster, schedule, times, measure(schedule, *timeline).makespan);
}

llvm::Expected<std::vector<Sensitivity>>
cleave::simulate::findSensitivities(const cost::Cluster &cluster, const ProgramWork &program,
                                    const Schedule &schedule, const RunOptions &options) {
  // Large enough for steps of tiles and of the critical path, small enough for a slope.
  constexpr double change = 0.02;
  auto usual = predictSeconds(cluster, program, schedule, options);
  if (!usual)
    return usual.takeError();
  std::vector<Sensitivity> result;
  auto tryNumber = [&](const cost::Cluster &changed, std::string name) -> llvm::Error {
    auto seconds = predictSeconds(changed, program, schedule, options);
    if (!seconds)
      return seconds.takeError();
    // Rounded, so that numbers that matter alike keep their order on every machine.
    double percent = std::round(1e8 * (*seconds / *usual - 1) / change) / 1e8;
    if (std::abs(percent) >= 5e-4)
      result.push_back({std::move(name), percent});
    return llvm::Error::success();
  };
  cost::Cluster changed = cluster;
  auto tryNumbers = [&](std::vector<cost::NamedNumber> numbers,
                        const std::string &owner) -> llvm::Error {
    for (const cost::NamedNumber &number : numbers) {
      // Numbers of things have no slope.
      if (*number.value == 0 ||
          llvm::is_contained({"processors", "memory_bytes", "shared"}, number.name))
        continue;
      double value = *number.value;
      *number.value *= 1 + change;
      if (llvm::Error error = tryNumber(changed, owner + "." + number.name.str()))
        return error;
      *number.value = value;
    }
    return llvm::Error::success();
  };
  if (llvm::Error error = tryNumbers(changed.device.facts(), cluster.device.name))
    return std::move(error);
  if (llvm::Error error = tryNumbers(changed.device.constants(), cluster.device.name))
    return std::move(error);
  for (cost::Level &level : changed.levels) {
    if (llvm::Error error = tryNumbers(level.link.facts(), level.link.name))
      return std::move(error);
    if (llvm::Error error = tryNumbers(level.link.constants(), level.link.name))
      return std::move(error);
  }
  llvm::stable_sort(result, [](const Sensitivity &a, const Sensitivity &b) {
    return std::abs(a.percent) > std::abs(b.percent);
  });
  return result;
}
