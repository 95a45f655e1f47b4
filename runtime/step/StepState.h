//===- StepState.h - what steps change -----------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_STEPSTATE_H
#define CLEAVE_RUNTIME_STEP_STEPSTATE_H

#include "runtime/exec/HostViews.h"
#include "runtime/step/PlaceIndex.h"

namespace cleave::runtime {

/// A sum over stages in this step: the terms that the stages' reduce functions have returned so
/// far, and their sum, added in the order of stages once all of them are there.
struct StageSum {
  std::vector<at::Tensor> terms; ///< by stage
  at::Tensor total;

  /// Adds the terms that are there. May throw.
  void add();
};

/// What the functions of one microbatch see: its data, and what they save for each other.
struct MicrobatchState {
  int64_t index = 0;
  at::Tensor rngOffset;
  std::vector<at::Tensor> inputs; ///< by PlaceIndex::input
  std::vector<c10::IValue> saved; ///< by PlaceIndex::crossing and its like
};

/// The values of one rank that steps read and change. What is on other ranks is undefined.
struct StepState {
  /// By PlaceIndex::weight, optimizerState and input: the order in which the program lists them.
  std::vector<at::Tensor> weights, optimizerStates, inputs;
  /// By PlaceIndex::result: what the last microbatch and the last update have returned. Weights and
  /// optimizer states among it are moved to the lists above.
  std::vector<c10::IValue> results;
  /// By result and microbatch: the outputs that SessionOptions::keepOutputs asks for.
  std::vector<std::vector<at::Tensor>> outputs;
  /// What unshard functions have returned for all microbatches of the step.
  std::vector<c10::IValue> unsharded;
  std::vector<StageSum> stageSums; ///< by PlaceIndex::stageSum
  /// Where callers keep weights and optimizer states, by the same indices; null for what is the
  /// session's own. What functions return is put there.
  std::vector<char *> weightHomes, stateHomes;
  /// The gradient of the loss that each microbatch starts from; empty where none is taken.
  std::vector<at::Tensor> seeds;
  /// Arguments that steps set: the number of the step, the seed of random numbers, and where those
  /// of a microbatch begin.
  at::Tensor step, rngSeed, rngOffset;
  /// The scale of the loss; undefined in a program without one.
  at::Tensor lossScale;
  /// The callers' views of the state, and of the inputs where these are on a device.
  HostViews views;
  StagedInputs stagedInputs;

  /// Allocates everything. `drawing`: the device that draws random numbers. May throw.
  void allocate(const Program &program, const StageMap &stages, const PlaceIndex &places,
                const SessionOptions &options, const Device &device, const Device &drawing);
  /// Puts back what a failed run has lost of values that callers keep: what it left of them. May
  /// throw.
  void restoreAdopted(const Program &program, const Device &device);
  /// Ends what callers see of the state, before a run.
  llvm::Error closeViews();
  void setStep(int64_t number) { *step.mutable_data_ptr<float>() = static_cast<float>(number); }
  int64_t stepNumber() const { return int64_t(*step.const_data_ptr<float>()); }
  /// The inputs as callers have filled them: the state's own, or copies. May throw.
  std::vector<at::Tensor> takeInputs(bool areCopied);
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_STEPSTATE_H
