//===- CompareTraining.cpp - trains two programs and compares them -----------===//

#include "tools/cleave-run/CompareTraining.h"
#include "runtime/io/Error.h"
#include "runtime/ranks/GatherStages.h"
#include "runtime/ranks/StageMap.h"
#include "tools/cleave-run/Against.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave;
using namespace cleave::runtime;

namespace {
/// What a run leaves behind, by the names of dumps and `loss of step N`.
struct Outcome {
  struct Value {
    std::string name;
    TensorType type;
    std::vector<char> bytes;
    ConstTensorRef ref() const { return {type, bytes.data()}; }
  };
  std::vector<Value> values;

  void add(const std::string &name, const ConstTensorRef &tensor) {
    values.push_back({name, tensor.type, tensor.bytes().vec()});
  }
  const Value *find(llvm::StringRef name) const {
    for (const Value &value : values)
      if (value.name == name)
        return &value;
    return nullptr;
  }
};
} // namespace

/// Microbatches that all ranks of `program` run in a step. A typed program's ranks run each of them
/// together, as do those that hold the stages of a scheduled one.
static int64_t countMicrobatches(const Program &program, const Communicator &world,
                                 const TrainOptions &options) {
  const ScheduleInfo *schedule = program.schedule();
  int64_t count = options.microbatches.value_or(schedule ? schedule->microbatches : 1);
  int64_t together = isRunBySchedule(program, &world) ? schedule->ranks : 1;
  return program.isTyped() ? count : count * (world.size() / together);
}

/// Trains on the ranks that the program is for; empty on the others. A program for a single rank
/// runs as many microbatches as all ranks of the one that it is compared with.
static llvm::Expected<Outcome> trainOne(Program &program, Communicator &world, TrainOptions options,
                                        const Program &other) {
  Outcome outcome;
  std::unique_ptr<Communicator> single;
  Communicator *ranks = &world;
  if (program.mesh().empty() && !options.batch && !other.mesh().empty())
    options.microbatches = countMicrobatches(other, world, options);
  if (program.mesh().empty() && world.size() > 1) {
    if (world.rank() != 0)
      return outcome;
    single = makeSingleRankCommunicator();
    ranks = single.get();
  }
  options.onStep = [&](int64_t step, double loss) {
    outcome.add("loss of step " + std::to_string(step),
                {{DType::F64, {}}, reinterpret_cast<const char *>(&loss)});
  };
  options.onEnd = [&](Session &session) -> llvm::Error {
    llvm::Expected<std::vector<WholeTensor>> weights = gatherWeights(session);
    if (!weights)
      return weights.takeError();
    for (const WholeTensor &weight : *weights)
      outcome.add(weight.name, weight.ref());
    return llvm::Error::success();
  };
  if (llvm::Error error = train(program, *ranks, options))
    return error;
  return outcome;
}

/// 1e-3 of the median over parameters of their largest element.
static double parameterFloor(llvm::ArrayRef<run::Row> rows) {
  std::vector<double> largest;
  for (const run::Row &row : rows)
    if (llvm::StringRef(row.name).starts_with("param."))
      largest.push_back(row.difference.maxReference);
  if (largest.empty())
    return 0;
  llvm::sort(largest);
  return 1e-3 * largest[largest.size() / 2];
}

llvm::Error run::compareTraining(Program &program, Communicator &world,
                                 const TrainOptions &training, const Options &options) {
  auto other = loadProgram(options.against, {world.rank(), world.size()});
  if (!other)
    return other.takeError();
  llvm::Expected<Outcome> ours = trainOne(program, world, training, **other);
  if (!ours)
    return ours.takeError();
  // Only the first program's run is the user's: it reports and saves.
  TrainOptions silent = training;
  silent.metrics = silent.tensorboard = silent.trace = silent.profile = silent.checkpoint = "";
  silent.checkpointEvery = silent.keepLast = 0;
  silent.resume = false;
  silent.quiet = true;
  Options adapted = adapt(options, **other);
  silent.weightGradients = adapted.weightGradients;
  silent.kernels = adapted.kernels;
  silent.poisonsDeadMemory = adapted.poisonsDeadMemory;
  llvm::Expected<Outcome> theirs = trainOne(**other, world, silent, program);
  if (!theirs)
    return theirs.takeError();
  if (world.rank() != 0)
    return llvm::Error::success();

  std::vector<Row> rows;
  std::vector<std::string> problems;
  for (const Outcome::Value &b : theirs->values) {
    const Outcome::Value *a = ours->find(b.name);
    if (!a || !(a->type == b.type))
      problems.push_back("'" + b.name + "' is only in " + (*other)->path().str());
    else
      rows.push_back({b.name, b.type.shape, computeDifference(a->ref(), b.ref())});
  }
  for (const Outcome::Value &a : ours->values)
    if (!theirs->find(a.name))
      problems.push_back("'" + a.name + "' is only in " + program.path().str());
  return reportDifferences(rows, parameterFloor(rows), options, std::move(problems),
                           {program.path(), (*other)->path()});
}
