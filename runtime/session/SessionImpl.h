//===- SessionImpl.h - state of a session, and how steps use it ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
#define CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H

#include "runtime/device/Timeline.h"
#include "runtime/exec/DeviceKernels.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/HostViews.h"
#include "runtime/exec/RandomStream.h"
#include "runtime/exec/StepGraph.h"
#include "runtime/kernels/CpuKernels.h"
#include "runtime/pipeline/ActionObserver.h"
#include "runtime/program/FramePlan.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/RankGrid.h"
#include "runtime/ranks/StageMap.h"

#include "llvm/ADT/StringMap.h"

namespace cleave::runtime {

class PipelineRunner;

class SessionImpl {
public:
  ~SessionImpl();
  static llvm::Expected<std::unique_ptr<SessionImpl>> create(const Program &program,
                                                             const SessionOptions &options);

  llvm::Error runMicrobatch(int64_t step, int64_t index);
  llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);
  llvm::Error runUpdate(int64_t step);
  llvm::Error runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);
  llvm::Expected<ConstTensorRef> result(llvm::StringRef fileName);
  std::vector<ConstTensorRef> keptOutputs(llvm::StringRef fileName);

  const Program *program = nullptr;
  SessionOptions options;
  std::unique_ptr<RankGrid> ranks;
  /// What of the program is on this rank.
  StageMap stages;
  Session::BatchPart part;
  /// Microbatches of a step on all ranks, and which of them this rank's `index` is.
  int64_t totalMicrobatches() const { return options.microbatches * part.count; }
  int64_t numberOf(int64_t index) const { return part.index * options.microbatches + index; }

  /// By their index in `program->weights()`, `optimizerStates()` and `inputs()`.
  std::vector<at::Tensor> weights, optimizerStates, inputs;
  /// What callers see of them.
  HostViews views;
  StagedInputs stagedInputs;
  Device *device = nullptr;
  /// By index of the microbatch function's result; state among them is moved to the above.
  std::vector<c10::IValue> results;

  /// State-dict names, aliases included; `parameter` and slot joined by a line feed; input names.
  llvm::StringMap<size_t> weightIndex, stateIndex, inputIndex;
  static std::string stateKey(llvm::StringRef parameter, llvm::StringRef slot) {
    return (parameter + "\n" + slot).str();
  }

  /// Of a lowered program: what a step needs at most.
  std::optional<int64_t> plannedBytes;

  /// By result and microbatch, where SessionOptions::keepOutputs asks for it.
  std::vector<std::vector<at::Tensor>> outputs;

  // Steps as graphs of the device: SessionGraphs.cpp. Absent where they are not recorded.
  /// Of a whole step (`runStep`), or its two parts where the caller runs them apart.
  std::optional<StepGraph> stepGraph, microbatchGraph, updateGraph;
  bool recordsSteps() const { return stepGraph.has_value(); }
  std::string graphRefusal;
  /// Losses by microbatch, in page-locked memory, and the one for which `done` is called.
  std::vector<at::Tensor> recordedLosses;
  int64_t doneMicrobatch = 0;
  /// Waits until a device has done what it was given, or a peer fails it.
  llvm::Error awaitDevice();
  /// Losses of microbatches as this rank holds them: copies on their way to the host, and numbers.
  std::vector<at::Tensor> notedLosses;
  std::vector<double> knownLosses;

private:
  friend class PipelineRunner;
  /// Where an argument comes from, or a result goes.
  struct Place {
    enum Kind : uint8_t {
      Weight,
      State,
      Input,
      Result,
      Seed,
      Step,
      RngSeed,
      RngOffset,
      Saved,     ///< by another function of the microbatch, of this stage or a neighbour
      Unsharded, ///< saved for all microbatches of the step
      StageSum   ///< a sum of what the stages' reduce functions give
    } kind;
    size_t index = 0;
    /// The function may overwrite it: a result replaces the argument, or it is a saved value's
    /// last use.
    bool isTied = false;
  };
  /// A function of the program, bound.
  struct BoundPhase {
    Phase phase;
    int64_t stage = 0;
    /// One for each frame, if it writes to the microbatch's.
    llvm::SmallVector<std::unique_ptr<Executor>, 1> executors;
    /// No later function of the microbatch needs what is in its frame.
    bool endsFrame = false;
    Executor::Observers observers;
    std::vector<Place> arguments, results;
  };
  /// A sum over stages, in this step: each stage's term once its reduce function has run, and their
  /// sum, in the order of stages, once all are there.
  struct StageSum {
    std::vector<at::Tensor> terms;
    at::Tensor total;
  };
  /// What the functions of one microbatch see: its data, and what they save for each other.
  struct MicrobatchState {
    int64_t index = 0;
    at::Tensor rngOffset;
    std::vector<at::Tensor> inputs;
    std::vector<c10::IValue> saved;
  };

  llvm::Error allocateState();
  llvm::Error checkMicrobatches() const;
  llvm::Error checkScheduled() const;
  llvm::Error makeRunner();
  llvm::Error makeBuckets();
  llvm::Error makeArena();
  /// Bytes from the arena's beginning to a frame of a stage.
  int64_t frameOffset(int64_t stage, unsigned slot) const;
  void indexSaved();
  llvm::Error connectGroups();
  llvm::Error bindPhases();
  llvm::Error observe(BoundPhase &bound);
  unsigned countExecutors(const PhaseFunction &part) const;
  llvm::Expected<std::unique_ptr<BoundPhase>> bindPhase(const PhaseFunction &part);
  llvm::Expected<Place> placeArgument(const PhaseFunction &part, const ValueInfo &value) const;
  Place placeResult(const PhaseFunction &part, const ValueInfo &value) const;
  Place placeSaved(const PhaseFunction &part, const ValueInfo &value, bool isResult) const;

  bool isDeferred() const { return options.weightGradients == WeightGradients::Deferred; }
  /// Sets what is the same for all microbatches of a step. May throw.
  void beginStep(int64_t step);
  /// Adds the terms that are there. May throw.
  static void addTerms(StageSum &sum);
  int64_t randomOffset(int64_t step, int64_t index) const {
    return ((step - 1) * totalMicrobatches() + numberOf(index)) * program->draws();
  }
  /// Whether the device can draw all random numbers of the program.
  bool canDrawOnDevice() const;
  /// Where a microbatch's random numbers begin, as its functions read it. May throw.
  at::Tensor placeOffset(int64_t step, int64_t index);
  MicrobatchState beginMicrobatch(int64_t step, int64_t index);
  /// The inputs as callers have filled them: the session's own, or copies. May throw.
  std::vector<at::Tensor> takeInputs(bool areCopied);
  /// Ends what callers see of the state, before a run.
  llvm::Error closeViews();
  /// Keeps the outputs of a microbatch that a function has just made.
  void keepOutputs(const BoundPhase &bound, int64_t index);
  /// Why a step cannot be recorded; empty: it can.
  std::string explainNoGraphs() const;
  void setUpGraphs();
  void restorePlaces(llvm::ArrayRef<at::Tensor> before);
  /// All microbatches' data, and what else recorded ones read.
  llvm::Error prepareRecorded(int64_t step, MicrobatchCallback fill);
  llvm::Error prepareRecordedUpdate(int64_t step);
  /// What is recorded.
  llvm::Error enqueueMicrobatches(int64_t step);
  llvm::Error enqueueUpdate(int64_t step);
  llvm::Error finishRecorded(MicrobatchCallback done);
  llvm::Error runRecordedMicrobatches(int64_t step, MicrobatchCallback fill,
                                      MicrobatchCallback done);
  llvm::Error runRecordedUpdate(int64_t step);
  llvm::Error runRecordedStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);
  llvm::Error checkGradients(const BoundPhase &bound, int64_t step) const;
  void observePhase(const BoundPhase &bound, int64_t microbatch, int64_t begin);
  /// The steady clock's time, or on a device a mark, whose time is known later. May throw.
  int64_t markTime();
  /// Hands an action on, whose times are what `markTime` gave; on a device in `reportMarked`.
  void reportAction(const ActionEvent &event);
  llvm::Error reportMarked();
  llvm::Error runPhase(BoundPhase &bound, MicrobatchState &state);
  llvm::Error finishMicrobatches();
  void fillArguments(Executor &executor, const BoundPhase &bound, MicrobatchState &state);
  llvm::Error storeResults(std::vector<c10::IValue> values, const BoundPhase &bound,
                           MicrobatchState &state);
  at::Tensor *state(const Place &place);

  Services services;
  BucketSet buckets;
  /// What functions use in turn, and behind it the frames.
  Arena arena;
  int64_t arenaBytes = 0;
  FramePlan frames;
  /// Where dead memory is to be overwritten.
  FrameEnds frameEnds;
  std::unique_ptr<KernelSource> kernels;
  RandomStream random;
  /// One of each for a program that is not in pipeline stages; microbatch in the order of a run.
  std::vector<std::unique_ptr<BoundPhase>> microbatch, unshard, reduce, update;
  /// By index of the program's functions; null where this rank does not run it.
  std::vector<BoundPhase *> byFunction;
  /// Runs the schedule, where one says what this rank does.
  std::unique_ptr<PipelineRunner> runner;
  llvm::StringMap<size_t> gradientIndex; ///< parameter's name -> result of the microbatch
  llvm::StringMap<size_t> resultIndex;   ///< file name -> result of the microbatch
  /// Saved values: name -> index in a microbatch's, or in the step's.
  /// A gradient's file name -> the bucket it lies in, and where.
  llvm::StringMap<std::pair<Bucket *, size_t>> memberIndex;
  llvm::StringMap<size_t> savedIndex, unshardedIndex;
  /// Which function of a microbatch takes a saved value or an input last.
  llvm::StringMap<const PhaseFunction *> lastTaker, lastInputTaker;
  /// The key of a saved or crossing value in these maps. What crosses is named by the boundary that
  /// it crosses, between stages `boundary` and `boundary` + 1.
  static std::string savedKey(const PhaseFunction &part, const ValueInfo &value, bool isResult);
  static std::string crossingKey(bool isForward, int64_t boundary, llvm::StringRef name);
  static bool isHandedOn(RoleKind role) {
    return role == RoleKind::Saved || role == RoleKind::Crossing ||
           role == RoleKind::CrossingGradient;
  }
  std::vector<bool> isAccumulated; ///< by index of the microbatch's result
  std::vector<c10::IValue> unsharded;
  llvm::StringMap<size_t> stageSumIndex;
  std::vector<StageSum> stageSums;
  /// Microbatches whose weight part has still to run.
  std::vector<MicrobatchState> waiting;
  at::Tensor seed, step, rngSeed;
  /// Where the random numbers of a microbatch begin; on a device that draws, those of a recorded
  /// step.
  at::Tensor rngOffset;
  /// Weights that microbatches replace, and what the recorded ones gave.
  std::vector<size_t> replacedWeights;
  std::vector<c10::IValue> recordedResults;
  std::optional<c10::Event> updateDone;
  /// Actions on a device whose times are marks, with their texts.
  std::optional<Timeline> timeline;
  std::vector<std::pair<ActionEvent, std::string>> markedActions;
  at::Tensor shown; ///< what `result` gave last, where it is not state
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
