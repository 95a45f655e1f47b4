//===- CompareTraining.cpp - trains two programs and compares them -----------===//

#include "tools/cleave-run/CompareTraining.h"
#include "runtime/exec/WholeTensors.h"
#include "runtime/io/Error.h"
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

/// Trains on the ranks that the program is for; empty on the others. Next to an untyped program on
/// several ranks, one for a single rank runs all ranks' microbatches; next to a typed one,
/// `isWhole`, its microbatches are the same.
static llvm::Expected<Outcome> trainOne(Program &program, Communicator &world, TrainOptions options,
                                        bool isWhole) {
  Outcome outcome;
  std::unique_ptr<Communicator> single;
  Communicator *ranks = &world;
  if (program.mesh().empty() && world.size() > 1) {
    if (world.rank() != 0)
      return outcome;
    single = makeSingleRankCommunicator();
    ranks = single.get();
    if (!options.batch && !isWhole)
      options.microbatches = options.microbatches.value_or(1) * world.size();
  }
  options.onStep = [&](int64_t step, double loss) {
    outcome.add("loss of step " + std::to_string(step),
                {{DType::F64, {}}, reinterpret_cast<const char *>(&loss)});
  };
  options.onEnd = [&](Session &session) -> llvm::Error {
    for (const ValueInfo &value : program.weights()) {
      if (value.role == RoleKind::Constant)
        continue;
      llvm::Expected<TensorRef> tensor = session.weight(value.name);
      if (!tensor)
        return tensor.takeError();
      llvm::Expected<WholeTensor> whole = assemble(value, *tensor, session.grid());
      if (!whole)
        return whole.takeError();
      outcome.add(value.fileName, whole->ref());
    }
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
  llvm::Expected<Outcome> ours = trainOne(program, world, training, (*other)->isTyped());
  if (!ours)
    return ours.takeError();
  // Only the first program's run is the user's: it reports and saves.
  TrainOptions silent = training;
  silent.metrics = silent.tensorboard = silent.trace = silent.profile = silent.checkpoint = "";
  silent.checkpointEvery = silent.keepLast = 0;
  silent.resume = false;
  silent.quiet = true;
  silent.weightGradients = chooseWeightGradients(**other, training.weightGradients);
  llvm::Expected<Outcome> theirs = trainOne(**other, world, silent, program.isTyped());
  if (!theirs)
    return theirs.takeError();
  if (world.rank() != 0)
    return llvm::Error::success();

  std::vector<Row> rows;
  std::vector<std::string> complaints;
  for (const Outcome::Value &b : theirs->values) {
    const Outcome::Value *a = ours->find(b.name);
    if (!a || !(a->type == b.type))
      complaints.push_back("'" + b.name + "' is only in " + (*other)->path().str());
    else
      rows.push_back({b.name, computeDifference(a->ref(), b.ref())});
  }
  for (const Outcome::Value &a : ours->values)
    if (!theirs->find(a.name))
      complaints.push_back("'" + a.name + "' is only in " + program.path().str());
  return reportDifferences(rows, parameterFloor(rows), options.tolerance, std::move(complaints),
                           {program.path(), (*other)->path()});
}
