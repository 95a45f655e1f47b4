// From the work of ops to times of actions.
#include "lib/schedule/simulate/ProgramCosts.h"

#include "lib/support/Error.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace cleave::simulate;
using cleave::makeError;
namespace cost = cleave::cost;

bool StageWork::hasSameFunctions(const StageWork &other) const {
  for (auto list :
       {&StageWork::forward, &StageWork::backward, &StageWork::input, &StageWork::weight,
        &StageWork::unshard, &StageWork::reduce, &StageWork::update})
    if (this->*list != other.*list)
      return false;
  return numReductions == other.numReductions;
}

cost::Width ProgramWork::getWidth() const {
  return cost::Width(llvm::max_element(flopsOfWidth) - flopsOfWidth.begin());
}

namespace {
/// What is in flight on another stream than the one that may wait for it.
struct Flight {
  double end = 0;
  Stream stream = Stream::Communication;
  unsigned group = 0; // of a communication
};

/// The clocks of a rank that runs a function.
class FunctionClock {
public:
  FunctionClock(const cost::Cluster &cluster, const ProgramWork &program, const RunOptions &options)
      : cluster(cluster), program(program), options(options) {
    time.exposed.assign(program.groups.size(), 0);
    time.transfer.assign(program.groups.size(), 0);
  }

  void add(const OpWork &op) {
    if (op.isEvent)
      return order(op);
    if (op.awaits >= 0)
      return await(flights.lookup(op.awaits));
    if (op.kind == OpWork::Communication)
      return communicate(op);
    if (op.hostBytes > 0)
      return copy(op);
    double seconds = cost::timeOf(cluster, op, {}) + op.kernels * cluster.device.kernelSeconds;
    launch(op.kernels);
    clock += seconds;
    time.compute += seconds;
  }

  FunctionTime finish() {
    await(last);
    await(lastCopy);
    double exposed = std::accumulate(time.exposed.begin(), time.exposed.end(), 0.0);
    double all = std::accumulate(time.transfer.begin(), time.transfer.end(), 0.0);
    // Kernels beside communication take longer.
    double slowdown = cluster.device.overlapSlowdown * std::max(all - exposed, 0.0);
    time.compute += slowdown;
    time.seconds = cost::timeOfLaunched(clock + slowdown, time.host);
    // Where kernels start later than they would, because others are slower or the host is, so do
    // copies.
    for (HostCopy &copy : time.copies) {
      double seconds = copy.end - copy.begin;
      copy.begin *= time.seconds / clock;
      copy.end = copy.begin + seconds;
    }
    return std::move(time);
  }

private:
  void launch(double kernels) {
    if (!options.usesGraphs)
      time.host += kernels * cluster.device.hostSeconds;
  }

  void communicate(const OpWork &op) {
    const cost::Group &ranks = program.groups[op.group].ranks;
    if (ranks.size <= 1)
      return;
    launch(op.kernels);
    double seconds = cost::timeOf(cluster, op, ranks);
    time.transfer[op.group] += seconds;
    // Communications follow each other on their stream.
    last = {std::max(last.end, clock) + seconds, Stream::Communication, op.group};
    if (op.starts >= 0)
      flights[op.starts] = last;
    else if (!op.isOnce)
      await(last);
  }

  void copy(const OpWork &op) {
    launch(1);
    double begin = op.hasEvents ? lastCopy.end : std::max(lastCopy.end, clock);
    lastCopy = {begin + cost::timeOf(cluster, op, {}), Stream::Host};
    time.copies.push_back({begin, lastCopy.end, op.isToHost});
    if (op.starts >= 0)
      flights[op.starts] = lastCopy;
  }

  /// An event is a place in a stream.
  void order(const OpWork &op) {
    if (op.starts >= 0) {
      flights[op.starts] = op.stream == Stream::Compute         ? Flight{clock, Stream::Compute}
                           : op.stream == Stream::Communication ? last
                                                                : lastCopy;
      return;
    }
    Flight flight = flights.lookup(op.awaits);
    if (op.stream == Stream::Compute)
      await(flight);
    else if (op.stream == Stream::Host)
      lastCopy.end = std::max(lastCopy.end, flight.end);
    else if (!program.groups.empty())
      last.end = std::max(last.end, flight.end);
  }

  void await(const Flight &flight) {
    if (flight.end <= clock)
      return;
    double &exposed =
        flight.stream == Stream::Host ? time.exposedCopies : time.exposed[flight.group];
    exposed += flight.end - clock;
    clock = flight.end;
  }

  const cost::Cluster &cluster;
  const ProgramWork &program;
  const RunOptions &options;
  FunctionTime time;
  double clock = 0;
  Flight last, lastCopy{0, Stream::Host};
  llvm::DenseMap<int, Flight> flights;
};
} // namespace

FunctionTime cleave::simulate::timeOf(const cost::Cluster &cluster, const ProgramWork &program,
                                      llvm::ArrayRef<OpWork> function, const RunOptions &options,
                                      bool isLast) {
  FunctionClock clock(cluster, program, options);
  for (const OpWork &op : function)
    if (!op.isOnce || isLast)
      clock.add(op);
  return clock.finish();
}

static bool hasOnce(const FunctionWork &function) {
  return llvm::any_of(function, [](const OpWork &op) { return op.isOnce; });
}

/// Adds what a function takes longer in the last microbatch.
static void addLast(const cost::Cluster &cluster, const ProgramWork &program,
                    const FunctionWork &function, const FunctionTime &usual,
                    const RunOptions &options, FunctionTime &update) {
  if (!hasOnce(function))
    return;
  FunctionTime last = timeOf(cluster, program, function, options, /*isLast=*/true);
  update.seconds += std::max(last.seconds - usual.seconds, 0.0);
  update.compute += last.compute - usual.compute;
  update.host += last.host - usual.host;
  update.exposedCopies += last.exposedCopies - usual.exposedCopies;
  for (size_t i = 0; i < last.exposed.size(); ++i) {
    update.exposed[i] += last.exposed[i] - usual.exposed[i];
    update.transfer[i] += last.transfer[i] - usual.transfer[i];
  }
}

/// Makes `reduce` one of the stage's reductions, all of which are taken to be alike.
static void shareReductions(const cost::Cluster &cluster, const ProgramWork &program,
                            const StageWork &stage, FunctionTime &reduce) {
  if (stage.numReductions == 0)
    return;
  for (const FunctionWork *function : {&stage.backward, &stage.input, &stage.weight})
    for (const OpWork &op : *function)
      if (op.isOnce) {
        double seconds = cost::timeOf(cluster, op, program.groups[op.group].ranks);
        reduce.transfer[op.group] += seconds;
        reduce.seconds += seconds;
      }
  reduce.seconds /= stage.numReductions;
  for (double &seconds : reduce.transfer)
    seconds /= stage.numReductions;
}

std::vector<StageTime> cleave::simulate::timeStages(const cost::Cluster &cluster,
                                                    const ProgramWork &program,
                                                    const RunOptions &options) {
  std::vector<StageTime> times;
  times.reserve(program.stages.size());
  for (const StageWork &stage : program.stages) {
    if (stage.likeStage) {
      times.push_back(StageTime(times[*stage.likeStage]));
      continue;
    }
    StageTime &time = times.emplace_back();
    auto of = [&](const FunctionWork &function) {
      return timeOf(cluster, program, function, options);
    };
    time.forward = of(stage.forward);
    time.backward = of(stage.backward);
    time.input = of(stage.input);
    time.weight = of(stage.weight);
    time.unshard = of(stage.unshard);
    time.reduce = of(stage.reduce);
    time.update = of(stage.update);
    if (options.schedulesReductions) {
      shareReductions(cluster, program, stage, time.reduce);
      continue;
    }
    addLast(cluster, program, stage.backward, time.backward, options, time.update);
    addLast(cluster, program, stage.input, time.input, options, time.update);
    addLast(cluster, program, stage.weight, time.weight, options, time.update);
  }
  return times;
}

CostTable cleave::simulate::costsOfStages(const cost::Cluster &cluster, const ProgramWork &program,
                                          llvm::ArrayRef<StageTime> times) {
  constexpr double milliseconds = 1e3;
  CostTable table;
  table.stages.assign(times.size(), StageCost());
  auto send = [&](double bytes) {
    return milliseconds * cost::sendTime(cluster, program.pipelineStride, bytes);
  };
  for (auto [time, stage, cost] : llvm::zip_equal(times, program.stages, table.stages)) {
    cost.forward = milliseconds * time.forward.seconds;
    cost.input = milliseconds * time.input.seconds;
    cost.weight = milliseconds * time.weight.seconds;
    cost.hasHalves = stage.hasHalves;
    if (stage.hasBackward)
      cost.backward = milliseconds * time.backward.seconds;
    cost.sendForward = send(stage.forwardBytes);
    cost.sendBackward = send(stage.backwardBytes);
    cost.unshard = milliseconds * time.unshard.seconds;
    cost.reduce = milliseconds * time.reduce.seconds;
    cost.optimizer = milliseconds * time.update.seconds;
  }
  // As many entries as stages: this cannot fail.
  llvm::cantFail(setMemory(table, program.stages));
  return table;
}

CostTable cleave::simulate::costsOfStages(const cost::Cluster &cluster,
                                          const ProgramWork &program) {
  return costsOfStages(cluster, program, timeStages(cluster, program));
}

llvm::Error cleave::simulate::checkWidth(const cost::Cluster &cluster, const ProgramWork &program) {
  if (program.flopsOfWidth[size_t(cost::Width::Bits32)] == 0 || cluster.device.flops32 > 0)
    return llvm::Error::success();
  return makeError(
      "cluster {0}: device {1} has no fact \"flops_32bit\", but the program multiplies "
      "matrices of 32 bits",
      cluster.name, cluster.device.name);
}

llvm::Error cleave::simulate::checkHostLink(const cost::Cluster &cluster,
                                            const ProgramWork &program) {
  return program.hasHostCopies ? cost::checkHostLink(cluster.device) : llvm::Error::success();
}

llvm::Error cleave::simulate::setMemory(CostTable &table, llvm::ArrayRef<StageWork> stages) {
  if (llvm::Error error = table.checkFor(stages.size()))
    return error;
  table.stages.resize(stages.size(), table.stages.front());
  for (auto [stage, cost] : llvm::zip_equal(stages, table.stages)) {
    cost.forwardMemory = stage.savedBytes;
    cost.weightMemory = stage.heldBytes;
    cost.inputMemory = stage.savedBytes - stage.heldBytes;
  }
  return llvm::Error::success();
}
