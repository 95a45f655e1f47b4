//===- Trainer.h - the state of a training run -------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_TRAINER_H
#define CLEAVE_RUNTIME_TRAIN_TRAINER_H

#include "runtime/io/Checkpoint.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/Profiler.h"
#include "runtime/train/Reporter.h"
#include "runtime/train/Status.h"
#include "runtime/train/Tracer.h"
#include "runtime/train/Train.h"
#include "runtime/train/TrainedProgram.h"
#include "runtime/train/TurnOrder.h"

namespace cleave::runtime {

/// One rank of a run. `setUp`, then `run`; both are collective.
class Trainer {
public:
  Trainer(Program &program, Communicator &world, const TrainOptions &options)
      : program(program), world(world), options(options) {
    programs.push_back(std::make_unique<TrainedProgram>(program, world, options));
  }

  llvm::Error setUp();
  llvm::Error run();

private:
  // Setting up, in this order. The third to sixth speak to no other rank.
  llvm::Error openOthers();
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
  /// The mean over all ranks, of microbatches in the order of the batch or of the targets in them.
  /// Ranks tell each other of signals, too.
  llvm::Expected<double> averageLoss(const TrainedProgram &current, int64_t step,
                                     llvm::ArrayRef<double> losses);
  llvm::Error save(int64_t step);
  /// Writes a checkpoint of what ranks hold in parts, each rank its own.
  llvm::Error saveParts(int64_t step);
  /// Ends the run after a step because of a signal; `isSaved`: its checkpoint is there already.
  llvm::Error interrupt(int64_t step, bool isSaved);
  llvm::Error finishTrace();
  llvm::Error writeProfile();
  void reportMemory();
  /// The data and batch of each program, and when it takes its turn.
  std::vector<std::string> describeTraining() const;
  /// The random numbers that so many turns of each program draw.
  int64_t countDraws(llvm::ArrayRef<int64_t> turns) const;
  /// A hash of the data of all programs and of the order in which they read it.
  uint64_t fingerprintData() const;
  /// What says so in a message: `--data`, and what `--also` says.
  std::string dataText() const;
  CheckpointState stateAt(int64_t step) const;
  /// The scale of the loss, or the one that a program without any found: it waits for one with.
  std::optional<LossScale> lossScale() const;

  bool isFirstRank() const;
  TrainedProgram &first() const { return *programs.front(); }
  /// The one that keeps the state.
  Session &session() const { return *first().session; }

  Program &program;
  Communicator &world;
  const TrainOptions &options;
  /// Before the session, which calls them.
  std::unique_ptr<Tracer> tracer;
  std::unique_ptr<Profiler> profiler;
  /// The first, which is `program`, and those that take turns with it.
  std::vector<std::unique_ptr<TrainedProgram>> programs;
  std::vector<OtherProgram> others;
  TurnOrder order;
  /// The turns of each program in the steps that are over.
  std::vector<int64_t> turns;
  uint64_t dataFingerprint = 0;
  /// Null unless options ask for one.
  std::unique_ptr<Evaluation> evaluation;
  std::unique_ptr<CheckpointDirectory> checkpoints;
  std::unique_ptr<Reporter> reporter;
  std::unique_ptr<Status> status;
  EvaluationHistory evaluations;
  /// The scale of the loss in the checkpoint that the run continued from.
  std::optional<LossScale> savedLossScale;
  /// Whether the last evaluation had the lowest loss.
  bool isBest = false;
  /// By program.
  std::vector<double> flopsPerStep;
  /// Steps that the run had behind it when it started.
  int64_t completed = 0;
  /// The checkpoint that the first rank would continue from; 0 for none.
  int64_t resumedStep = 0;
  /// That a rank got, as all of them know.
  int signal = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRAINER_H
