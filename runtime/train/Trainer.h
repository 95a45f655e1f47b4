//===- Trainer.h - the state of a training run -------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_TRAINER_H
#define CLEAVE_RUNTIME_TRAIN_TRAINER_H

#include "runtime/io/Checkpoint.h"
#include "runtime/io/Data.h"
#include "runtime/program/RateSchedule.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/LossShares.h"
#include "runtime/train/Profiler.h"
#include "runtime/train/Reporter.h"
#include "runtime/train/Status.h"
#include "runtime/train/Tracer.h"
#include "runtime/train/Train.h"

namespace cleave::runtime {

/// One rank of a run. `setUp`, then `run`; both are collective.
class Trainer {
public:
  Trainer(Program &program, Communicator &world, const TrainOptions &options)
      : program(program), world(world), options(options) {}

  llvm::Error setUp();
  llvm::Error run();

private:
  // Setting up, in this order. The second and third speak to no other rank.
  llvm::Error openEvaluation();
  llvm::Error checkOptions();
  llvm::Error checkTraining();
  llvm::Error checkEvaluations();
  llvm::Error openData();
  llvm::Error openOutputs();
  llvm::Error openCheckpoints();
  llvm::Error createSession();
  llvm::Error resume();
  llvm::Error resumeFrom(int64_t step);
  llvm::Error startProfile();
  llvm::Error checkSameRun(const CheckpointState &saved);

  llvm::Error runSteps();
  llvm::Error runStep(int64_t step);
  /// Computes the evaluation loss if the step is one after which that is due, and draws the
  /// consequences: for learning rates, the best checkpoint and an early end.
  llvm::Error evaluate(StepMetrics &metrics);
  /// Whether evaluations have not improved for as long as options allow.
  bool stopsEarly() const;
  /// Makes `best` a link to the checkpoint of the step, which has just been written.
  llvm::Error linkBest(int64_t step);
  llvm::Error openStatus();
  /// What a rank does in a step, in floating-point operations; the mean over ranks with stages.
  double countFlops() const;
  /// The learning rates that metrics show. Steps that were skipped before do not count.
  std::vector<double> getRates(int64_t step, const std::optional<LossScale> &scale) const;
  /// Runs a step's microbatches and notes their losses; and its update, where that need not wait
  /// for them.
  llvm::Error runMicrobatches(int64_t step);
  /// The step's losses by microbatch; none if this rank makes none.
  llvm::Expected<std::vector<double>> takeLosses();
  /// The mean over all ranks, of microbatches in the order of the batch or of the targets in them.
  /// Ranks tell each other of signals, too.
  llvm::Expected<double> averageLoss(int64_t step, llvm::ArrayRef<double> losses);
  llvm::Error save(int64_t step);
  /// Writes a checkpoint of what ranks hold in parts, each rank its own.
  llvm::Error saveParts(int64_t step);
  /// Ends the run after a step because of a signal; `isSaved`: its checkpoint is there already.
  llvm::Error interrupt(int64_t step, bool isSaved);
  llvm::Error finishTrace();
  std::optional<double> readGradientNorm();
  /// "2 ranks x 4 microbatches of 2"
  std::string describeBatch() const;
  llvm::Error writeProfile();
  void noteMemory(StepMetrics &metrics);
  void reportMemory();
  CheckpointState stateAt(int64_t step) const;

  bool isFirstRank() const;
  /// Microbatches of a step on all ranks.
  int64_t totalMicrobatches() const { return microbatches * part.count; }

  Program &program;
  Communicator &world;
  const TrainOptions &options;
  int64_t microbatches = 1;
  int64_t microbatchSize = 1;
  Session::BatchPart part;
  /// What the data source reads for a microbatch.
  std::vector<ValueInfo> inputs;
  std::unique_ptr<DataSource> data;
  uint64_t dataFingerprint = 0;
  /// Null where each microbatch counts the same.
  std::unique_ptr<LossShares> shares;
  /// Before the session, which calls them.
  std::unique_ptr<Tracer> tracer;
  std::unique_ptr<Profiler> profiler;
  std::unique_ptr<Session> session;
  /// Null unless options ask for one.
  std::unique_ptr<Evaluation> evaluation;
  std::unique_ptr<CheckpointDirectory> checkpoints;
  std::unique_ptr<Reporter> reporter;
  std::unique_ptr<Status> status;
  std::vector<RateSchedule> rates;
  EvaluationHistory evaluations;
  /// Whether the last evaluation had the lowest loss.
  bool isBest = false;
  double flopsPerStep = 0;
  /// What --clip-gradients makes updates give.
  static constexpr llvm::StringLiteral kGradientNorm = "output.gradient_norm";
  bool reportsNorm = false;
  /// Steps that the run had behind it when it started.
  int64_t completed = 0;
  /// The checkpoint that the first rank would continue from; 0 for none.
  int64_t resumedStep = 0;
  /// That a rank got, as all of them know.
  int signal = 0;
  /// The microbatches of this step that have a loss, in the order in which they made it.
  std::vector<int64_t> lossOrder;
  /// The peak over all steps; set if the program is lowered.
  std::optional<Session::MemoryUse> measured;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRAINER_H
