// A whole training step of a program on a cluster: time, rate, memory, and what they hang on.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_STEP_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_STEP_H

#include "lib/schedule/simulate/Metrics.h"
#include "lib/schedule/simulate/ProgramCosts.h"

namespace cleave::simulate {

/// What the ranks at a place of the pipeline hold, in bytes.
struct RankMemory {
  StateBytes state;
  double activations = 0; // that microbatches keep, at the most at a time
  double work = 0;        // of functions while they run, at the most
  /// What it takes beyond these until messages are known to be complete, and for what its stages
  /// pass on to each other.
  double messages = 0;
  double host = 0; // in the host's memory, at the most; not of the sum

  double sum() const { return state.sum() + activations + work + messages; }
};

/// A name and the seconds that go to it.
struct Part {
  std::string name;
  double seconds = 0;
};

/// Copies to and from the host.
struct HostCopies {
  double seconds = 0, bytes = 0;
  double exposed = 0; // waiting for them
};

struct Step {
  double seconds = 0;
  /// Two thirds of the runs that the cluster's constants were fitted to lie within; equal to
  /// `seconds` for a cluster that was never fitted.
  double lowest = 0, highest = 0;
  /// Where the seconds of the busiest rank go: kernels (or the host that launches them), waiting
  /// for communication by mesh axes, which includes the pipeline's, waiting for copies, idling in
  /// the pipeline, and what no op accounts for.
  double compute = 0, bubble = 0, other = 0;
  std::vector<Part> exposed;
  HostCopies copies;
  /// Bytes that the rank sends, by mesh axes.
  std::vector<std::pair<std::string, double>> sent;
  /// Floating-point operations of that rank, recomputed ones included, and bytes that one
  /// microbatch keeps there.
  double rankFlops = 0, savedBytes = 0;
  /// Seconds of kernels and communication of that rank by op, the longest first; hidden
  /// communication counts.
  std::vector<Part> ops;
  double flops = 0; // of the model, on all devices
  double mfu = 0;   // of the devices' peak for 32 bits, if most products have as many, or for 16
  double tokensPerSecond = 0, examplesPerSecond = 0;
  std::vector<RankMemory> memory; // by place in the pipeline

  double maxMemory() const;
  double maxHostMemory() const;
};

/// Bytes of gathered parameters that a rank has at the most, of `gathered` by stage: of stages that
/// are unsharded at a time, or of all where the schedule does not say.
double measureGathered(const schedule::Schedule &schedule, unsigned rank,
                       llvm::ArrayRef<double> gathered);

/// Predicts the step of `program` by a schedule of its stages.
llvm::Expected<Step> predictStep(const cost::Cluster &cluster, const ProgramWork &program,
                                 const schedule::Schedule &schedule,
                                 const RunOptions &options = {});
/// The same with times and a simulation that are there already, in milliseconds.
Step describeStep(const cost::Cluster &cluster, const ProgramWork &program,
                  const schedule::Schedule &schedule, llvm::ArrayRef<StageTime> times,
                  const Metrics &metrics);

/// Bytes that a rank's microbatches have in the host's memory at the most.
double measureHostMemory(const ProgramWork &program, const schedule::Schedule &schedule,
                         unsigned rank);

/// When copies to and from the host run on a rank, in milliseconds: those of its microbatches.
std::vector<HostCopy> listCopies(const ProgramWork &program, const schedule::Schedule &schedule,
                                 llvm::ArrayRef<StageTime> times, const Timeline &timeline,
                                 unsigned rank);

/// By how many percent a step gets longer where a number of the cluster's grows by one percent.
struct Sensitivity {
  std::string name; // "h100.memory_bandwidth"
  double percent = 0;
};
/// Of all rates and constants, the largest first, without those that change nothing.
llvm::Expected<std::vector<Sensitivity>> findSensitivities(const cost::Cluster &cluster,
                                                           const ProgramWork &program,
                                                           const schedule::Schedule &schedule,
                                                           const RunOptions &options = {});

/// Whether the schedule has updates and reductions of its own.
bool hasUpdates(const schedule::Schedule &schedule);
bool hasReductions(const schedule::Schedule &schedule);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_STEP_H
