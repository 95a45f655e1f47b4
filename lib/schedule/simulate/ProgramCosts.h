// Costs of a program on a described cluster: the time of every op, by lib/cost.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H

#include "lib/cost/OpWork.h"
#include "lib/schedule/simulate/Simulator.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <memory>
#include <optional>

namespace cleave::pipeline {
struct StageMemory;
} // namespace cleave::pipeline

namespace cleave::simulate {

/// Where a rank's ops run one after another.
enum class Stream { Compute, Communication, Host };

/// One op of a program's function. Communications and copies to and from the host have streams of
/// their own.
struct OpWork : cost::OpWork {
  /// Its name, in ProgramWork::names.
  unsigned name = 0;
  /// Of a communication: among whom, in ProgramWork::groups.
  unsigned group = 0;
  /// What overlaps the ops after it (a communication, a copy), and the op that waits for it, have
  /// the same number, which is the function's own; -1 for all others.
  int starts = -1;
  int awaits = -1;
  /// An event that is recorded on `stream` (`starts`), or that `stream` waits for (`awaits`).
  bool isEvent = false;
  Stream stream = Stream::Compute;
  /// Of a copy: whether it is to the host, and whether events say all that it waits for. Otherwise
  /// it waits for the kernels ahead of it.
  bool isToHost = false, hasEvents = false;
  /// Whether it runs in the last microbatch only, beside what follows it, as the reduction of a
  /// bucket of gradients; the update waits for it.
  bool isOnce = false;

  bool operator==(const OpWork &) const = default;
};
using FunctionWork = std::vector<OpWork>;

/// What a rank of a stage holds from beginning to end of a step, in bytes.
struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double others = 0; // buffers, constants, inputs, arenas

  double sum() const { return parameters + gradients + optimizer + others; }
};

/// What a microbatch has in the host's memory, in bytes: at the most while a function runs, and
/// when it has.
struct HostBytes {
  double peak = 0, held = 0;
};

/// What the functions of a stage do; those that it does not have are empty.
struct StageWork {
  FunctionWork forward, backward, input, weight, unshard, reduce, update;
  bool hasBackward = false; // in one function
  bool hasHalves = true;    // of the backward; a stage without backward has empty ones
  /// Of one microbatch: the output for the next stage, the input gradient for the one before.
  double forwardBytes = 0, backwardBytes = 0;
  /// Bytes that one microbatch keeps after the forward, and after the input gradient for the weight
  /// gradient.
  double savedBytes = 0, heldBytes = 0;
  /// Bytes that a function takes beside them at the most, while it runs.
  double workBytes = 0;
  /// The same of the functions of a microbatch alone, without those of a backward in halves: how
  /// much is there before and after these depends on how many layers the stage has.
  double microbatchBytes = 0;
  StateBytes state;
  HostBytes hostForward, hostBackward, hostInput, hostWeight;
  /// What ProgramWork::measureList knows it by.
  std::shared_ptr<const pipeline::StageMemory> memory;
  /// Bytes of parameters that are gathered while the stage is unsharded.
  double gatheredBytes = 0;
  /// Buckets that are reduced, and the reduce function if there is one: a schedule has an action
  /// for each.
  unsigned numReductions = 0;
  /// Floating-point operations of the model for one microbatch: without what is recomputed.
  double modelFlops = 0;
  /// An earlier stage whose functions do the same, if there is one: it takes as long.
  std::optional<unsigned> likeStage;

  /// Whether the functions of both do the same.
  bool hasSameFunctions(const StageWork &other) const;
};

/// The ranks that communicate, by the axes along which they do.
struct ProcessGroup {
  std::string axes; // "dp", "dp, tp"
  cost::Group ranks;
};

/// A program as far as its time and its memory depend on it.
struct ProgramWork {
  std::vector<StageWork> stages;
  std::vector<ProcessGroup> groups;
  std::vector<std::string> names; // of ops
  /// The ranks along all axes of the mesh, the pipeline's included.
  int64_t devices = 1;
  /// Neighbours in the pipeline are so many ranks apart.
  int64_t pipelineStride = 1;
  /// Of one microbatch, on all ranks together; tokens are 0 unless an input is made of integers.
  double examples = 0, tokens = 0;
  /// Floating-point operations of its functions by the width of their operands.
  std::array<double, 4> flopsOfWidth = {};
  /// Whether functions copy to or from the host.
  bool hasHostCopies = false;
  /// Bytes that microbatches take on a rank at the most, gathered parameters among them, by the
  /// list of a schedule that has sends and receives: as a dry run has them. Null where that is not
  /// known, as of lowered functions.
  double (*measureList)(const ProgramWork &program, const schedule::Schedule &schedule,
                        unsigned rank) = nullptr;

  /// The width of most of them.
  cost::Width getWidth() const;
};

/// When a copy to or from the host runs, in seconds from the beginning of its function.
struct HostCopy {
  double begin = 0, end = 0;
  bool isToHost = false;
};

/// Seconds of a function.
struct FunctionTime {
  double seconds = 0;
  double compute = 0;           // of kernels, with what hidden communication slows them down
  double host = 0;              // to launch them
  std::vector<double> exposed;  // waiting for communication, by group
  std::vector<double> transfer; // of communication, hidden or not, by group
  double exposedCopies = 0;     // waiting for copies to and from the host
  std::vector<HostCopy> copies; // hidden or not, in order
};

/// How a program is run.
struct RunOptions {
  /// Steps are replayed as graphs of the device: launches cost the host nothing.
  bool usesGraphs = false;
  /// The schedule says when each bucket is reduced. Otherwise they are during the last backward.
  bool schedulesReductions = false;
  SimulationOptions simulation;
};

/// Its ops one after another, communications and copies on streams of their own. The function ends
/// when all have. With `isLast`, ops that run in the last microbatch only are among them.
FunctionTime timeOf(const cost::Cluster &cluster, const ProgramWork &program,
                    llvm::ArrayRef<OpWork> function, const RunOptions &options = {},
                    bool isLast = false);

/// What the functions of a stage take. `update` includes what of the reductions of buckets the last
/// backward does not hide; where a schedule says when they are, `reduce` is one of them.
struct StageTime {
  FunctionTime forward, backward, input, weight, unshard, reduce, update;
};
std::vector<StageTime> timeStages(const cost::Cluster &cluster, const ProgramWork &program,
                                  const RunOptions &options = {});

/// In milliseconds and bytes.
CostTable costsOfStages(const cost::Cluster &cluster, const ProgramWork &program,
                        llvm::ArrayRef<StageTime> times);
CostTable costsOfStages(const cost::Cluster &cluster, const ProgramWork &program);

/// Fails if the program has products of a type that the device has no rate for.
llvm::Error checkWidth(const cost::Cluster &cluster, const ProgramWork &program);

/// Fails if the program copies to or from the host and the device's file does not describe the
/// link.
llvm::Error checkHostLink(const cost::Cluster &cluster, const ProgramWork &program);

/// Gives a table of times (one entry, or one a stage) the activation memory of the stages.
llvm::Error setMemory(CostTable &table, llvm::ArrayRef<StageWork> stages);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_PROGRAMCOSTS_H
