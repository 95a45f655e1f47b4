//===- Train.h - the training loop -------------------------------*- C++ -*-===//
//
// Trains a program on its ranks: reads data, runs steps, reports, saves and resumes. docs/run.md
// describes the options as cleave-run spells them.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_TRAIN_TRAIN_H
#define CLEAVE_RUNTIME_TRAIN_TRAIN_H

#include "cleave/Session.h"
#include "runtime/session/TensorFiles.h"
#include <functional>
#include <optional>
#include <string>

namespace cleave::runtime {

class Communicator;
class Device;

struct TrainOptions {
  /// Where the program runs; null for the processor.
  Device *device = nullptr;
  /// As SessionOptions has them.
  bool recordGraphs = false, nameRanges = false;
  /// The weights to start from.
  WeightSource weights;
  /// Steps of the whole run, those before a resumed checkpoint included.
  int64_t steps = 0;
  /// Microbatches that one rank runs in a step; absent: as many as `batch` gives, else 1.
  std::optional<int64_t> microbatches;
  /// Examples in a step, over all ranks and microbatches.
  std::optional<int64_t> batch;
  uint64_t seed = 0;
  ReplicationCheck check;
  /// Fill the planned memory of a lowered program with NaN as soon as it is dead.
  bool poisonsDeadMemory = false;
  WeightGradients weightGradients = WeightGradients::Immediate;
  /// SessionOptions::kernels.
  std::string kernels = "best";
  /// Bytes that a rank may need in a step; more is refused before anything is allocated.
  std::optional<int64_t> memoryLimit;
  /// Replaces the base of the program's learning rate, or multiplies that of each; schedules stay.
  std::optional<double> learningRate, learningRateScale;

  /// DataOptions::source, ::shuffle and ::documents, the last also of the data to evaluate on.
  std::string data;
  /// Programs that take turns with this one on the same parameters and optimizer state: what
  /// `parseOtherProgram` (TurnOrder.h) reads.
  std::vector<std::string> also;
  bool shuffle = true;
  std::string documents;
  /// Data to compute the loss on every `evalEvery` steps and after the last one, without an update;
  /// empty for none. By the program in `evalProgram`, with the constants in `evalConstants`; where
  /// that is empty, by the trained one.
  std::string evalData, evalProgram, evalConstants;
  int64_t evalEvery = 0;
  /// Evaluate the moving averages of the parameters in place of these.
  bool evaluatesAverages = false;
  /// End after this many evaluations in a row without a lower loss.
  std::optional<int64_t> earlyStoppingPatience;
  /// Compute that loss alone, and train for no step; `onEvaluated` gets it, if set.
  bool evaluatesOnly = false;
  std::function<void(double)> onEvaluated;
  /// Tokens are below it; absent: what the program's embedding of the input takes.
  std::optional<int64_t> vocabulary;

  /// Files to report to; empty for none.
  std::string metrics, tensorboard, trace, status;
  /// Floating-point operations that the device of a rank can do in a second.
  std::optional<double> peakFlops;
  /// The trace covers this many steps from the first that runs.
  int64_t traceSteps = 10;
  /// Print nothing but warnings.
  bool quiet = false;

  /// Directory of checkpoints; empty for none.
  std::string checkpoint;
  /// Steps between checkpoints; 0: only after the last step.
  int64_t checkpointEvery = 0;
  /// Keep this many of the newest; 0: all.
  int64_t keepLast = 0;
  /// Also save, and keep, the checkpoint with the lowest evaluation loss; `best` is a link to it.
  bool keepBest = false;
  /// Continue from the newest checkpoint, if there is one.
  bool resume = false;
  /// What may differ from the run that is continued.
  bool changesData = false, changesBatch = false, changesRates = false;
  /// A signal that asks this rank to save a checkpoint and end, 0 for none; asked after each step.
  /// When a rank has one, `train` ends on all ranks after that step, with an `Interruption`.
  std::function<int()> pendingSignal;
  /// End with an error, without an update, when the loss is not finite.
  bool stopOnNan = false;

  /// File for the measured costs of a program in stages, for cleave-sim; empty for none. The first
  /// `profileSkip` steps that run do not count.
  std::string profile;
  int64_t profileSkip = 2;

  /// Called with each step's number and loss, and with the session after the last step, if set.
  std::function<void(int64_t, double)> onStep;
  /// Called for each action of a schedule that this rank runs, if set.
  std::function<void(const ActionEvent &)> onAction;
  std::function<llvm::Error(Session &)> onEnd;
};

/// Trains `program` as this rank of `world`; every rank calls it with equal options. Changes
/// `program` where options ask for another learning rate. Rank 0 writes the files and prints.
llvm::Error train(Program &program, Communicator &world, const TrainOptions &options);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_TRAIN_H
