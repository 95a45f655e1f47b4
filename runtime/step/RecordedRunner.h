//===- RecordedRunner.h - runs a step as graphs of the device ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_RECORDEDRUNNER_H
#define CLEAVE_RUNTIME_STEP_RECORDEDRUNNER_H

#include "runtime/step/SequentialRunner.h"
#include "runtime/step/StepGraph.h"

namespace cleave::runtime {

/// Why a session's steps cannot be recorded as graphs of its device; empty if they can.
std::string explainNoGraphs(const StepContext &context);

/// Runs a step sequentially while the device records it, and from then on replays the graph. What
/// differs between steps is written where the recorded work reads it: the data of all microbatches,
/// the number of the step, where its random numbers begin.
class RecordedRunner : public StepRunner {
public:
  /// `explainNoGraphs(context)` is empty. May throw.
  explicit RecordedRunner(StepContext &context);

  /// Not recorded.
  llvm::Error runMicrobatch(int64_t step, int64_t index) override;
  llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill,
                              MicrobatchCallback done) override;
  llvm::Error runUpdate(int64_t step) override;
  llvm::Error runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done) override;
  at::Tensor stagedLoss() const override;

private:
  /// Writes what a recorded step reads: the data of all microbatches, and the random offset.
  llvm::Error prepare(int64_t step, MicrobatchCallback fill);
  /// Writes the numbers that a recorded update reads.
  llvm::Error prepareUpdate(int64_t step);
  /// What is recorded.
  llvm::Error enqueueMicrobatches(int64_t step);
  llvm::Error enqueueUpdate(int64_t step);
  void restorePlaces(llvm::ArrayRef<at::Tensor> before);
  /// After a graph with microbatches has been enqueued.
  llvm::Error finish(MicrobatchCallback done);
  llvm::Error noteUpdate();

  StepContext &context;
  SequentialRunner sequential;
  /// A whole step (`runStep`), or its two parts where the caller runs them apart.
  StepGraph stepGraph, microbatchGraph, updateGraph;
  /// Weights that microbatches replace, and the results of recorded microbatches.
  std::vector<size_t> replacedWeights;
  std::vector<c10::IValue> recordedResults;
  /// Losses by microbatch, in page-locked memory, and the one for which `done` was called last.
  std::vector<at::Tensor> losses;
  int64_t doneMicrobatch = 0;
  /// The device has read the numbers of the last update.
  std::optional<c10::Event> updateDone;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_RECORDEDRUNNER_H
