//===- WholeStep.cpp - compares a step of two programs -----------------------===//

#include "tools/cleave-run/WholeStep.h"
#include "runtime/io/Error.h"
#include "runtime/train/Agreement.h"
#include "tools/cleave-run/Against.h"
#include "tools/cleave-run/Evaluate.h"
#include "tools/cleave-run/RankStep.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

using namespace cleave;
using namespace cleave::runtime;
using run::StepPart;
using run::StepResult;
using run::StepValue;

/// The bytes that rank 0 brings, on all ranks.
static llvm::Expected<std::string> broadcastBytes(Communicator &world, llvm::ArrayRef<char> bytes,
                                                  llvm::StringRef what) {
  llvm::StringRef mine(bytes.data(), bytes.size());
  auto all = world.allGatherBytes(world.rank() == 0 ? mine : "", what);
  if (!all)
    return all.takeError();
  return std::move(all->front());
}

/// Part `index` of `count` along a dimension.
static WholeTensor takePart(const WholeTensor &whole, int64_t dim, Session::BatchPart part) {
  WholeTensor result{whole.name, whole.type, {}};
  llvm::ArrayRef<int64_t> shape = whole.type.shape;
  if (shape[dim] % part.count != 0)
    return result;
  result.type.shape[dim] = shape[dim] / part.count;
  Box box = wholeBox(shape);
  box[dim] = {part.index * result.type.shape[dim], result.type.shape[dim]};
  result.bytes.resize(size_t(result.type.numBytes()));
  copyBox(reinterpret_cast<const uint8_t *>(whole.bytes.data()), shape, box,
          byteSize(whole.type.dtype), reinterpret_cast<uint8_t *>(result.bytes.data()));
  return result;
}

namespace {
/// What a rank says of a value.
struct Said {
  enum Kind : int64_t { Nothing, OtherType, Compared } kind = Nothing;
  runtime::Difference difference;
};

/// Compares what ranks have with what rank 0 has of the program for one device.
class StepComparison {
public:
  StepComparison(Communicator &world, StepResult &ours, llvm::ArrayRef<WholeTensor> ownBuffers)
      : world(world), ours(ours), ownBuffers(ownBuffers) {}

  /// All ranks call it together with the value's name, rank 0 with its value.
  llvm::Error compare(llvm::StringRef name, const WholeTensor *reference);

  /// By value, that of the rank on which it differs most.
  std::vector<run::Row> rows;
  std::vector<std::string> problems;

private:
  llvm::Expected<WholeTensor> receive(llvm::StringRef name, const WholeTensor *reference);
  llvm::Error addTerms(llvm::StringRef name, StepValue *value);
  llvm::Expected<bool> isSameOnRanks(llvm::StringRef name, const StepValue *value);
  Said compareHere(const StepValue *mine, WholeTensor expected);
  void note(llvm::StringRef name, const TensorType &type, llvm::ArrayRef<Said> ofRanks,
            bool isSame);

  Communicator &world;
  StepResult &ours; ///< of whose terms the sum takes the place
  /// What one device makes of this rank's microbatches alone.
  llvm::ArrayRef<WholeTensor> ownBuffers;
};
} // namespace

/// Rank 0's value on all ranks: its type in one message, its elements in the next.
llvm::Expected<WholeTensor> StepComparison::receive(llvm::StringRef name,
                                                    const WholeTensor *reference) {
  std::string type;
  llvm::ArrayRef<char> elements;
  if (reference) {
    elements = reference->bytes;
    type.push_back(char(reference->type.dtype));
    for (int64_t size : reference->type.shape)
      type.append(reinterpret_cast<const char *>(&size), sizeof size);
  }
  llvm::Expected<std::string> head = broadcastBytes(world, type, name);
  if (!head)
    return head.takeError();
  llvm::Expected<std::string> bytes = broadcastBytes(world, elements, name);
  if (!bytes)
    return bytes.takeError();
  WholeTensor received{name.str(), {DType(head->front()), {}}, {bytes->begin(), bytes->end()}};
  for (size_t at = 1; at < head->size(); at += sizeof(int64_t)) {
    int64_t size;
    std::memcpy(&size, head->data() + at, sizeof size);
    received.type.shape.push_back(size);
  }
  return received;
}

/// Makes a rank's term the sum over all parts of the batch; ranks with the same part have the same
/// one. `value` is null on ranks that have none.
llvm::Error StepComparison::addTerms(llvm::StringRef name, StepValue *value) {
  std::string term;
  if (value) {
    term.assign(reinterpret_cast<const char *>(&ours.batch.index), sizeof(int64_t));
    term.append(value->tensor.bytes.data(), value->tensor.bytes.size());
  }
  auto terms = world.allGatherBytes(term, name);
  if (!terms)
    return terms.takeError();
  if (!value)
    return llvm::Error::success();
  std::set<int64_t> added;
  std::fill(value->tensor.bytes.begin(), value->tensor.bytes.end(), 0);
  for (const std::string &other : *terms) {
    if (other.empty())
      continue;
    int64_t index;
    std::memcpy(&index, other.data(), sizeof index);
    if (added.insert(index).second)
      if (llvm::Error error = run::add(
              value->tensor, llvm::ArrayRef(other.data(), other.size()).drop_front(sizeof index)))
        return error;
  }
  return llvm::Error::success();
}

void StepComparison::note(llvm::StringRef name, const TensorType &type,
                          llvm::ArrayRef<Said> ofRanks, bool isSame) {
  std::optional<run::Row> row;
  for (auto [rank, said] : llvm::enumerate(ofRanks)) {
    if (said.kind == Said::OtherType) {
      problems.push_back(("'" + name + "' is another tensor on one device").str());
      return;
    }
    // NaN is infinitely far from a number.
    if (said.kind == Said::Compared &&
        (!row || !(said.difference.maxAbsolute <= row->difference.maxAbsolute)))
      row = {name.str(), type.shape, said.difference,
             isSame ? std::nullopt : std::optional(int(rank))};
  }
  if (row)
    rows.push_back(std::move(*row));
  else if (!name.starts_with("grad."))
    problems.push_back(("'" + name + "' is on one device only").str());
}

static Said compareWith(const StepValue *mine, const WholeTensor &expected) {
  Said said;
  if (mine && mine->tensor.type == expected.type)
    said = {Said::Compared, computeDifference(mine->tensor.ref(), expected.ref())};
  else if (mine)
    said.kind = Said::OtherType;
  return said;
}

/// Compares a value that each rank has its own of. A buffer is wrong where it is neither of what it
/// may be: the nearer of them counts.
Said StepComparison::compareHere(const StepValue *mine, WholeTensor expected) {
  if (mine && mine->part == StepPart::OwnExamples)
    expected = takePart(expected, mine->dim, ours.batch);
  Said said = compareWith(mine, expected);
  if (!mine || mine->part != StepPart::Buffer)
    return said;
  for (const WholeTensor &own : ownBuffers)
    if (own.name == mine->tensor.name)
      if (Said other = compareWith(mine, own);
          std::isnan(said.difference.maxAbsolute) ||
          other.difference.maxAbsolute < said.difference.maxAbsolute)
        said = other;
  return said;
}

/// Whether rank 0 has what all ranks have, and may compare alone: terms, once they are added up,
/// and mostly what follows a reduction.
llvm::Expected<bool> StepComparison::isSameOnRanks(llvm::StringRef name, const StepValue *value) {
  std::string text;
  if (value && value->part == StepPart::Term) {
    text = "sum";
  } else if (value && value->part != StepPart::Whole) {
    text = "rank " + std::to_string(world.rank());
  } else if (value) {
    llvm::ArrayRef<char> bytes = value->tensor.bytes;
    llvm::XXH128_hash_t hash =
        llvm::xxh3_128bits({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
    text = value->tensor.type.str() + " " + std::to_string(hash.high64) + " " +
           std::to_string(hash.low64);
  }
  auto all = world.allGatherBytes(text, name);
  if (!all)
    return all.takeError();
  return !all->front().empty() && llvm::all_of(*all, [&](const std::string &other) {
    return other.empty() || other == all->front();
  });
}

llvm::Error StepComparison::compare(llvm::StringRef name, const WholeTensor *reference) {
  auto found =
      llvm::find_if(ours.values, [&](const StepValue &value) { return value.tensor.name == name; });
  StepValue *mine = found == ours.values.end() ? nullptr : &*found;
  llvm::Expected<bool> isSame = isSameOnRanks(name, mine);
  if (!isSame)
    return isSame.takeError();
  if (llvm::Error error = addTerms(name, mine && mine->part == StepPart::Term ? mine : nullptr))
    return error;
  if (*isSame) {
    if (reference)
      note(name, reference->type, {compareWith(mine, *reference)}, /*isSame=*/true);
    return llvm::Error::success();
  }
  llvm::Expected<WholeTensor> expected = receive(name, reference);
  if (!expected)
    return expected.takeError();
  TensorType type = expected->type;
  Said said = compareHere(mine, std::move(*expected));
  auto all = world.allGatherBytes({reinterpret_cast<const char *>(&said), sizeof said}, name);
  if (!all)
    return all.takeError();
  std::vector<Said> ofRanks(all->size());
  for (auto [theirs, text] : llvm::zip_equal(ofRanks, *all))
    std::memcpy(&theirs, text.data(), sizeof theirs);
  note(name, type, ofRanks, /*isSame=*/false);
  return llvm::Error::success();
}

/// Small parameters and states are measured against others of the kind: 1e-3 of the median over
/// them of their largest element.
static void setFloors(std::vector<run::Row> &rows) {
  std::map<std::string, std::vector<double>> largest;
  auto kindOf = [](llvm::StringRef name) -> std::string {
    if (name.starts_with("optim."))
      return name.rsplit('.').second.str();
    return name.starts_with("param.") ? "." : "";
  };
  for (const run::Row &row : rows)
    largest[kindOf(row.name)].push_back(row.difference.maxReference);
  for (auto &[kind, values] : largest)
    llvm::sort(values);
  for (run::Row &row : rows)
    if (std::string kind = kindOf(row.name); !kind.empty())
      row.floor = 1e-3 * largest[kind][largest[kind].size() / 2];
}

/// The step of the program for one device, on rank 0; nothing on others.
static llvm::Expected<StepResult> runReference(const Program &program, Communicator &world,
                                               const run::Options &options, int64_t microbatches,
                                               bool listsLosses) {
  if (world.rank() != 0)
    return StepResult();
  return run::runStep(program, *makeSingleRankCommunicator(), options, microbatches, listsLosses);
}

llvm::Error run::compareSteps(const Program &program, Communicator &world, const Options &options) {
  auto other = loadProgram(options.against, {world.rank(), world.size()});
  if (!other)
    return other.takeError();
  if (!(*other)->mesh().empty())
    return makeError("{0}: --whole-step expects a program for one device after --against, found a "
                     "mesh",
                     (*other)->path());
  if (options.inputs.empty())
    return makeError("--whole-step expects --inputs FILE with the microbatches of all ranks");
  int64_t microbatches =
      program.schedule() ? program.schedule()->microbatches : options.microbatches;
  std::string step = std::to_string(options.wholeStep), count = std::to_string(microbatches),
              seed = std::to_string(options.seed);
  if (llvm::Error error = agreeOnProgram(
          world, program, {{"--whole-step", step}, {"--microbatches", count}, {"--seed", seed}},
          options.kernels, options.check.isOn))
    return error;
  llvm::Expected<StepResult> ours =
      runStep(program, world, options, microbatches, !program.isTyped());
  if (!ours)
    return ours.takeError();
  llvm::Expected<StepResult> theirs =
      runReference(**other, world, adapt(options, **other), microbatches * ours->batch.count,
                   !program.isTyped());
  if (llvm::Error error = agree(world, theirs ? llvm::Error::success() : theirs.takeError(),
                                "the program of one device"))
    return error;
  std::vector<WholeTensor> ownBuffers;
  auto runOwn = [&]() -> llvm::Error {
    if (ours->batch.count == 1 || llvm::none_of(ours->values, [](const StepValue &value) {
          return value.part == StepPart::Buffer;
        }))
      return llvm::Error::success();
    return runBuffers(**other, adapt(options, **other), microbatches, ours->batch)
        .moveInto(ownBuffers);
  };
  if (llvm::Error error = agree(world, runOwn(), "the program of one device"))
    return error;
  std::string names;
  for (const StepValue &value : theirs->values)
    names += value.tensor.name + "\n";
  llvm::Expected<std::string> all =
      broadcastBytes(world, llvm::ArrayRef(names.data(), names.size()), "the names of values");
  if (!all)
    return all.takeError();
  StepComparison comparison(world, *ours, ownBuffers);
  llvm::SmallVector<llvm::StringRef> list;
  llvm::StringRef(*all).split(list, '\n', -1, /*KeepEmpty=*/false);
  for (auto [index, name] : llvm::enumerate(list))
    if (llvm::Error error =
            comparison.compare(name, world.rank() == 0 ? &theirs->values[index].tensor : nullptr))
      return error;
  if (world.rank() != 0)
    return llvm::Error::success();
  setFloors(comparison.rows);
  return reportDifferences(comparison.rows, gradientFloor(comparison.rows), options,
                           std::move(comparison.problems), {program.path(), (*other)->path()});
}
