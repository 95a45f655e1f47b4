//===- Session.h - one rank's execution of a program ---------------*- C++ -*-===//
//
// A session binds a program's ops once and then runs microbatches and updates. It owns what steps
// change: parameters, buffers, gradients and optimizer state.
//
//   auto session = Session::create(program, options);
//   ... fill weight(...) for each of program.weights() ...
//   for step in 1..: for index in 0..microbatches-1:
//     ... fill input(...); session->runMicrobatch(step, index) ...
//   session->runUpdate(step)
//
// All functions are called by one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_SESSION_H
#define CLEAVE_SESSION_H

#include "cleave/LossScale.h"
#include "cleave/Program.h"
#include "cleave/UserActions.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <map>
#include <set>
#include <string>

namespace cleave::runtime {

class Communicator;
class Device; // runtime/device/Device.h
class RankGrid;
class SessionImpl;
class StageMap;     // runtime/ranks/StageMap.h
struct ActionEvent; // runtime/step/ActionEvent.h

/// An executed instruction, for traces.
struct OpEvent {
  llvm::StringRef name;     ///< "aten.mm"
  llvm::StringRef location; ///< "h.0.attn.c_attn (gpt.py:57)", empty if unknown
  Phase phase;
  int64_t startNs; ///< steady clock
  int64_t durationNs;
};

/// The reduction of a bucket's gradients over ranks, for traces.
struct ReductionEvent {
  llvm::StringRef bucket;
  int64_t startNs; ///< steady clock
  int64_t endNs;
};

/// When the weight part of a backward runs, where a program has it as a function of its own.
enum class WeightGradients : uint8_t {
  Immediate, ///< after the microbatch's input part
  Deferred   ///< after the input parts of all microbatches of the step
};

/// For tests of a ReplicationCheck: the lowest bit of the first element of the first result of op
/// `op` (from 0) of a microbatch's first function is flipped on `rank`.
struct InjectedFault {
  int rank = 0;
  int64_t op = 0;
};

/// Compares, after every op of a typed program, what its types call equal (R and I) on all ranks
/// along the axis, bit for bit. The first difference ends the run on all ranks.
struct ReplicationCheck {
  bool isOn = false;
  std::optional<InjectedFault> fault;
};

struct SessionOptions {
  /// The ranks that run the program together; null for one rank. Outlives the session.
  Communicator *communicator = nullptr;
  /// Where the program's tensors are; null for the processor. Outlives the session.
  Device *device = nullptr;
  /// Microbatches that this rank runs in a step.
  int64_t microbatches = 1;
  /// Seed of the program's random numbers.
  uint64_t seed = 0;
  /// Gradient of the loss that a microbatch starts from, until `setLossSeeds`; absent:
  /// 1 / (microbatches x data-parallel ranks).
  std::optional<double> lossSeed;
  /// Deferred needs a program with a backward_weight function.
  WeightGradients weightGradients = WeightGradients::Immediate;
  /// What the schedule's `call` and `collective` actions run whose names are not function's of the
  /// program.
  UserCallbacks actions;
  /// Called after each instruction, if set.
  std::function<void(const OpEvent &)> onOp;
  /// Called after each action of a schedule, if set; without a schedule, after each function of a
  /// program in stages, as the action that it is.
  std::function<void(const ActionEvent &)> onAction;
  /// Called when a bucket's reduction has been waited for, if set and the backend tells when it was
  /// complete.
  std::function<void(const ReductionEvent &)> onReduction;
  /// Record a step as a graph of the device, where nothing forbids it, and replay that.
  bool recordGraphs = false;
  /// Show ops by name to the profiler of a device.
  bool nameRanges = false;
  /// Keep loss and batched outputs of all microbatches of a step, not only of the last.
  bool keepOutputs = false;
  ReplicationCheck check;
  /// For checks of lowered programs: fill planned memory with NaN as soon as it is dead.
  bool poisonsDeadMemory = false;
  /// Which of the program's compiled kernels run: "best", those for the best processor that this
  /// machine is; those for a target such as "x86-64-v3"; "none": the ops of each kernel run one by
  /// one.
  std::string kernels = "best";
  /// Memory of the caller in which values live, by file name (`param.w`, `buffer.b`, `constant.c`,
  /// `optim.w.exp_avg`): steps read and write them there, and they never move. Contiguous, on the
  /// device, of the value's type on this rank; outlives the session. Its contents count: such a
  /// value need not be filled. Other values are in memory of the session's own.
  std::map<std::string, TensorRef> adopted;
  /// Values by file name that this session has no memory for: another one, of a program that takes
  /// turns with this one, lends them for a step (runtime/session/SharedState.h).
  std::set<std::string> borrowed;
  /// Random numbers of PyTorch's generator (not Philox's) are those of the process's default
  /// generator where a step finds it, and it is left where they end, as in eager mode. For
  /// `Session::runStep`, which alone knows where a step ends.
  bool followsDefaultGenerator = false;
};

/// An error where `program` has no weight part of its own to defer.
llvm::Error checkDeferrable(const Program &program);

/// What `Session::runMicrobatches` calls with a microbatch's number.
using MicrobatchCallback = llvm::function_ref<llvm::Error(int64_t)>;

class Session {
public:
  /// Binds every op of `program` (which outlives the session) and allocates its state: weights are
  /// uninitialised until filled, optimizer state is zero. Errors name the op that this LibTorch
  /// cannot run, or what about the ranks or microbatches does not fit the program.
  static llvm::Expected<std::unique_ptr<Session>> create(const Program &program,
                                                         const SessionOptions &options = {});
  ~Session();

  const Program &program() const;
  /// The ranks on the program's mesh.
  RankGrid &grid();
  /// Which rank has which stage and its values.
  const StageMap &stages() const;
  /// This rank and how many there are.
  int rank() const;
  int ranks() const;
  /// This rank takes part `index` of `count` of a step's batch. Of a typed program all ranks take
  /// the batch together, each its part of every microbatch as the inputs' types say.
  struct BatchPart {
    int64_t index = 0;
    int64_t count = 1;
  };
  BatchPart batchPart() const;

  /// Whether a parameter, buffer or constant, by its state-dict name, the optimizer states of a
  /// parameter, and an input are on this rank: all, unless the session is scheduled.
  bool hasWeight(llvm::StringRef name) const;
  bool hasOptimizerState(llvm::StringRef parameter) const;
  bool hasInput(llvm::StringRef name) const;
  /// Data of a parameter, buffer or constant, by its state-dict name or one of its aliases, to be
  /// read and written. Valid until the next run. What is only read is cheaper by `result`: where
  /// tensors are on a device, what these two gave is copied there before the next run.
  llvm::Expected<TensorRef> weight(llvm::StringRef name);
  llvm::Expected<TensorRef> optimizerState(llvm::StringRef parameter, llvm::StringRef slot);
  /// Data of an input or target, filled by the caller before each microbatch. Valid as long as the
  /// session.
  llvm::Expected<TensorRef> input(llvm::StringRef name);

  /// Runs microbatch `index` (from 0, in order) of step `step` (from 1). Index 0 starts with empty
  /// gradient accumulators and unshards parameters; the last one also runs what waits for it:
  /// deferred weight gradients, and the reduction of gradients.
  llvm::Error runMicrobatch(int64_t step, int64_t index);
  /// Runs all microbatches of a step: in order, or as the program's schedule says. `fill` is called
  /// for each microbatch, in the order in which they start here, to fill `input(...)`; not on ranks
  /// whose stages read no data. `done` is called when a microbatch's loss is made (without a loss:
  /// its last forward), on the ranks that make it; `loss()` and `result("loss")` are then its.
  llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);
  /// Whether several ranks run the program's stages, each its own, by the program's schedule. Then
  /// only `runMicrobatches` runs microbatches, and a rank has the values of its stages alone.
  bool isScheduled() const;
  /// Runs the update of step `step` with the gradients of its microbatches; afterwards these are
  /// gone. An error after the last step that the program's schedules have learning rates for.
  llvm::Error runUpdate(int64_t step);
  /// `runMicrobatches` and `runUpdate`; on a device as one graph, where steps are recorded. Then
  /// `done` is called for all microbatches once everything has been enqueued.
  llvm::Error runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);

  /// Sets where in the program's stream the random numbers of the next steps begin: at `draws` of
  /// the step that runs next, as if all steps before it had drawn so many. For programs that take
  /// turns; else a step begins after as many draws as its own program has made in those before it.
  void setDrawsBefore(int64_t draws);

  /// Sets how often the learning rates that have a `#train.plateau` are reduced, from the next
  /// update on: what the caller's evaluations have come to. 0 at first.
  void setRateReductions(int64_t count);

  /// Sets the gradient of the loss that each microbatch of this rank starts from, in the steps that
  /// follow: its share of the step's loss. A program whose mean is over targets (`train.mean_over`)
  /// runs no step of several microbatches before they are set.
  llvm::Error setLossSeeds(llvm::ArrayRef<double> seeds);
  /// What was set, by microbatch; empty before.
  llvm::ArrayRef<double> lossSeeds() const;

  /// The scale of the loss that the next step starts from; none without `train.loss_scaling`. An
  /// update whose gradients are not all finite changes nothing else, and later updates count as if
  /// its step had not been: their number, for schedules and optimizers, is less by `skipped`.
  std::optional<LossScale> lossScale() const;
  /// Continues from the scale of another session. A program without one continues `skipped` alone:
  /// its updates are numbered as they would be with a scale.
  llvm::Error setLossScale(const LossScale &scale);

  /// Exchanges the values of parameters and their moving averages (the optimizer state `ema`) on
  /// all ranks, which call it together; a second call undoes it. Parameters without an average
  /// keep their values. An error where the program has none.
  llvm::Error swapAverages();

  /// From now on the learning rates of parameter group `group` (`train.learning_rate` has it) are
  /// `rate`, whatever their schedule says. An error where the program has no such group.
  llvm::Error setLearningRate(int64_t group, double rate);

  /// Loss of the last microbatch (its own mean); NaN for a program without a loss. Of a typed
  /// program this is what the rank holds: see `wholeLoss`.
  double loss() const;
  /// The loss of all ranks of a typed program, which call it together; `loss()` of an untyped one.
  llvm::Expected<double> wholeLoss();
  /// Notes the last microbatch's `wholeLoss` for `takeLosses`, without waiting for a device to have
  /// computed it.
  llvm::Error noteLoss();
  /// Why steps are not recorded as graphs though options ask for it; empty if they are.
  llvm::StringRef graphRefusal() const;
  /// What was noted since the last call, in that order. Called together by all ranks of a typed
  /// program that noted it.
  llvm::Expected<std::vector<double>> takeLosses();
  /// A value by its file name: a result of the last microbatch (`loss`, `output.N`, `grad.NAME`)
  /// or state (`buffer.NAME`, `param.NAME`, `optim.NAME.SLOT`). State is valid until the next run,
  /// a result until then or the next call.
  llvm::Expected<ConstTensorRef> result(llvm::StringRef fileName);
  /// A result of each of the step's microbatches, as `SessionOptions::keepOutputs` keeps them;
  /// empty for what it does not.
  std::vector<ConstTensorRef> keptOutputs(llvm::StringRef fileName);

  /// Memory of a session's steps.
  struct MemoryUse {
    /// Peak bytes in a step, as planned; set if the program is lowered.
    std::optional<int64_t> plannedBytes;
    /// Peak bytes of all tensors of the process since the last reset, without what ops of lowered
    /// programs use inside while they run; and that. The first run of a function, in which ops show
    /// where their results lie, counts results as workspace too.
    int64_t tensorBytes = 0;
    int64_t workspaceBytes = 0;
    /// Whether workspace is apart; else, on devices, it is among `tensorBytes`.
    bool isWorkspaceApart = true;
    /// The same in the host's memory: planned, and measured where the processor is the device.
    int64_t plannedHostBytes = 0, hostBytes = 0;
  };
  /// None where the process does not count its memory (`installCachingAllocator`).
  std::optional<MemoryUse> memoryUse() const;
  /// Sets the peaks to what is in use now.
  void resetMemoryUse();

private:
  friend class SharedState; // runtime/session/SharedState.h
  explicit Session(std::unique_ptr<SessionImpl> impl);
  std::unique_ptr<SessionImpl> impl;
};

/// Sets how many threads one op may use, in the whole process.
void setNumThreads(int threads);
int getNumThreads();

/// Keeps freed CPU memory for later tensors instead of giving it back to the system: steps ask for
/// the same sizes again and again. For the whole process, for good.
void installCachingAllocator();

/// What one op sends over the same mesh axes in a step.
struct CommunicationCosts {
  std::string op;        ///< "dist.all_gather", "train.reduce_bucket"; "send" between stages
  std::string axes;      ///< "dp, tp"
  int64_t count = 0;     ///< of communications
  int64_t bytes = 0;     ///< bytes of this rank's tensors that enter
  int64_t sentBytes = 0; ///< bytes the busiest rank sends, by rings; along axes of known size only
};

/// Memory, ops, floating-point operations and communication of one rank, known without running
/// anything.
struct ProgramCosts {
  int64_t parameterBytes = 0;
  int64_t bufferBytes = 0; ///< and constants
  int64_t optimizerStateBytes = 0;
  int64_t inputBytes = 0;
  int64_t bucketBytes = 0; ///< buffers in which gradients gather
  /// All of the above: what a session holds from beginning to end.
  int64_t stateBytes = 0;
  int64_t gradientBytes = 0; ///< with those in buckets
  /// The most that is there at a time of parameters that are gathered for several microbatches.
  int64_t gatheredBytes = 0;
  /// Bytes that one microbatch's forward saves for its backward.
  int64_t savedBytes = 0;
  /// Bytes of all microbatches that wait for deferred weight gradients.
  int64_t deferredBytes = 0;
  /// Peak bytes of live values of a microbatch, without what kernels use
  /// inside; with several microbatches, without the gradients gathered so far.
  int64_t activationPeakBytes = 0;
  /// Memory that lowered functions use in turn, allocated from beginning to end. The values in it
  /// are not part of the line above.
  int64_t arenaBytes = 0;
  /// What functions of a microbatch save for each other: frames of all that are in flight at
  /// once, there from beginning to end.
  int64_t frameBytes = 0;
  /// Peak bytes in a step, including state, arena and frames.
  int64_t peakBytes = 0;
  /// Peak bytes of values that are offloaded to the host's memory, none of which are in the above.
  int64_t hostPeakBytes = 0;
  /// (op name, count) of all functions, most frequent first.
  std::vector<std::pair<std::string, int64_t>> ops;
  /// In one step, by op and axes.
  std::vector<CommunicationCosts> communication;
  /// Floating-point operations of contractions and attention in one step.
  int64_t flops = 0;
};
ProgramCosts computeCosts(const Program &program, int64_t microbatches = 1,
                          WeightGradients weightGradients = WeightGradients::Immediate);

/// What the rank at `place` along the pipeline axis needs to run its part of the program's
/// schedule: the stages that it holds, the microbatches in flight, and what it sends and receives.
/// `savedBytes` is what microbatches in flight hold at most.
ProgramCosts computeStageCosts(const Program &program, int64_t place);
/// The same of every rank along the pipeline axis.
std::vector<ProgramCosts> computeScheduleCosts(const Program &program);
/// How many kernels the program has, and a line for each family of processors that they are
/// compiled for; empty without kernels.
std::string describeKernels(const Program &program);
/// A line for each rank of the program's schedule: its stages, how many actions of each kind, and
/// its peak memory. `costs` are those of `computeScheduleCosts`.
std::string describeSchedule(const Program &program, const std::vector<ProgramCosts> &costs);

/// "1.5 MiB"
std::string describeBytes(int64_t bytes);
/// A line for each thing that takes memory, and the peak.
std::string describeMemory(const ProgramCosts &costs);
/// A line for each kind of communication, and their sum; "none" without any.
std::string describeCommunication(const ProgramCosts &costs);
/// An error with that table where the peak of a step is above `limit` bytes.
llvm::Error checkMemoryLimit(const Program &program, int64_t microbatches,
                             WeightGradients weightGradients, int64_t limit);
/// The same for ranks that run the program's schedule, each its part.
llvm::Error checkScheduleMemoryLimit(const Program &program, int64_t limit);

} // namespace cleave::runtime

#endif // CLEAVE_SESSION_H
