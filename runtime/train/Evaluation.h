//===- Evaluation.h - the loss over an evaluation set ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_EVALUATION_H
#define CLEAVE_RUNTIME_TRAIN_EVALUATION_H

#include "runtime/comm/Communicator.h"
#include "runtime/io/Data.h"
#include "runtime/session/CountedTargets.h"
#include "runtime/train/Train.h"

namespace cleave::runtime {

/// Computes the mean loss over one pass of a data source, with the weights of a session and without
/// an update: by that session's own program, or by another one for the same parameters, exported in
/// evaluation mode. All ranks call everything together.
class Evaluation {
public:
  /// Loads the other program, if options name one, and checks that the program's loss is that of
  /// evaluation: it draws nothing and changes no buffer.
  static llvm::Expected<std::unique_ptr<Evaluation>>
  open(const Program &training, Communicator &world, const TrainOptions &options);

  /// Opens the data; speaks to no other rank. `microbatches` is how many a rank runs at once.
  llvm::Error openData(int64_t microbatches);
  /// Makes the session of the other program, whose weights will be those of `training`.
  llvm::Error createSession(Session &training);

  llvm::Expected<double> run(Session &training, int64_t step);
  /// The data, and how much of it is read.
  std::string describe() const;

private:
  Evaluation(const Program &training, Communicator &world, const TrainOptions &options)
      : training(training), world(world), options(options) {}

  const Program &program() const { return other ? *other : training; }
  /// The ranks that run the program together.
  Communicator &ranks() const { return alone ? *alone : world; }
  llvm::Error checkProgram() const;
  /// Gives the other program's session the weights that `from` has now.
  llvm::Error copyWeights(Session &from);
  /// How much a microbatch of the data, by its number, counts in the mean.
  llvm::Expected<int64_t> weigh(int64_t number) const;
  llvm::Expected<double> average(double sum, int64_t count) const;

  const Program &training;
  Communicator &world;
  const TrainOptions &options;
  /// Null where the training's program is evaluated itself.
  std::unique_ptr<Program> other;
  /// Of a program without a mesh, which every rank runs alone on its part of the data.
  std::unique_ptr<Communicator> alone;
  std::unique_ptr<Session> session;
  std::unique_ptr<DataSource> data;
  /// None where each microbatch counts the same.
  std::optional<CountedTargets> targets;
  Session::BatchPart part;
  int64_t microbatches = 1, microbatchSize = 1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_EVALUATION_H
