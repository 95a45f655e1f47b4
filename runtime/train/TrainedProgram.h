//===- TrainedProgram.h - one of the programs of a run -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_TRAINEDPROGRAM_H
#define CLEAVE_RUNTIME_TRAIN_TRAINEDPROGRAM_H

#include "runtime/io/Data.h"
#include "runtime/program/RateSchedule.h"
#include "runtime/session/SharedState.h"
#include "runtime/train/LossShares.h"
#include "runtime/train/Train.h"
#include "runtime/train/TurnOrder.h"

namespace cleave::runtime {

class Tracer;

/// A program that steps of a run are of, with the data that they read. Most runs have one; of
/// several, the first keeps parameters, buffers and optimizer state.
class TrainedProgram {
public:
  /// The run's first program.
  TrainedProgram(Program &program, Communicator &world, const TrainOptions &options)
      : program(program), world(world), options(options), source(options.data),
        wantedMicrobatches(options.microbatches), wantedBatch(options.batch) {}
  /// Another one, loaded.
  TrainedProgram(std::unique_ptr<Program> loaded, const OtherProgram &other, Communicator &world,
                 const TrainOptions &options);

  /// Finds how the ranks share a step's batch, sets learning rates, and refuses what does not fit
  /// the program. Speaks to no other rank, and neither does `openData`.
  llvm::Error check();
  llvm::Error checkTraining() const;
  llvm::Error openData();
  /// `base`: all but the number of microbatches.
  llvm::Error createSession(SessionOptions base);
  /// The same of a program besides the first, `keeper`, whose state it shares; an error where it
  /// cannot. The former speaks to no other rank.
  llvm::Error checkShares(const TrainedProgram &keeper);
  llvm::Error createSession(SessionOptions base, TrainedProgram &keeper);

  /// Takes the state for a step, and gives it back.
  llvm::Error beginTurn(int64_t drawsBefore);
  llvm::Error endTurn();
  /// Continues with the first program's scale of the loss.
  llvm::Error takeLossScale(const std::optional<LossScale> &scale);
  /// Runs a step's microbatches and notes their losses; and its update, where that need not wait
  /// for them. `turn` is the step's number, from 1, among those of this program.
  llvm::Error runMicrobatches(int64_t step, int64_t turn, Tracer *tracer);
  /// The step's losses by microbatch; none if this rank makes none.
  llvm::Expected<std::vector<double>> takeLosses();
  /// The norm of the step's gradients, where the program computes it and this rank has it.
  std::optional<double> readGradientNorm();
  /// The learning rates that metrics show, of the update of this number.
  std::vector<double> getRates(int64_t update, int64_t reductions) const;
  /// What a rank does in a step, in floating-point operations; the mean over ranks with stages.
  double countFlops() const;
  /// Takes what the last step has used into `measured`.
  std::optional<Session::MemoryUse> noteMemory();

  /// "2 ranks x 4 microbatches of 2"
  std::string describeBatch() const;
  /// Microbatches of a step on all ranks.
  int64_t totalMicrobatches() const { return microbatches * part.count; }
  int64_t draws() const { return totalMicrobatches() * program.draws(); }

private:
  std::unique_ptr<Program> owned;

public:
  Program &program;
  Communicator &world;
  const TrainOptions &options;
  int64_t microbatches = 1, microbatchSize = 1;
  Session::BatchPart part;
  /// What the data source reads for a microbatch.
  std::vector<ValueInfo> inputs;
  std::unique_ptr<DataSource> data;
  /// Null where each microbatch counts the same.
  std::unique_ptr<LossShares> shares;
  std::unique_ptr<Session> session;
  /// The peak over all steps but the first, in which ops still show where their results lie.
  std::optional<Session::MemoryUse> measured;

private:
  llvm::Error checkBatch(const ScheduleInfo *schedule);

  /// What `--data` and the like say for this program.
  std::string source;
  std::optional<int64_t> wantedMicrobatches, wantedBatch;
  std::string constants;
  std::vector<RateSchedule> rates;
  bool reportsNorm = false;
  /// Steps that have run.
  int64_t turns = 0;
  /// The microbatches of this step that have a loss, in the order in which they made it.
  std::vector<int64_t> lossOrder;
  /// What it has of the first program, by file name. Empty and null for that one.
  std::set<std::string> sharedNames;
  std::unique_ptr<SharedState> shared;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRAINEDPROGRAM_H
