//===- Checkpoint.cpp - the saved state of a training run -----------------===//

#include "runtime/io/Checkpoint.h"
#include "runtime/io/CheckpointParts.h"
#include "runtime/io/JsonCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

using namespace cleave::runtime;
namespace json = llvm::json;
namespace fs = llvm::sys::fs;

/// 2 has tensors in parts.
static constexpr int64_t kFormatVersion = 1, kPartsFormatVersion = 2;
static constexpr llvm::StringLiteral kPrefix = "step-";
/// Directories that are being written or removed.
static constexpr llvm::StringLiteral kTemporaryPrefix = ".step-";
/// A link to the checkpoint with the lowest evaluation loss.
static constexpr llvm::StringLiteral kBest = "best";
static constexpr llvm::StringLiteral kModel = "model.safetensors", kLoss = "loss.safetensors",
                                     kOptimizer = "optimizer.safetensors", kState = "state.json";

std::string cleave::runtime::getCheckpointPath(llvm::StringRef directory, int64_t step) {
  // Eight digits, so that names sort like steps; more where they are needed.
  return llvm::formatv("{0}/{1}{2}", directory, kPrefix, llvm::format("%08lld", (long long)step))
      .str();
}

std::string cleave::runtime::getCheckpointModel(llvm::StringRef checkpoint) {
  return (checkpoint + "/" + kModel).str();
}

std::string cleave::runtime::getUnfinishedPath(llvm::StringRef directory, int64_t step) {
  return llvm::formatv("{0}/{1}writing-{2}", directory, kTemporaryPrefix, step).str();
}

template <typename Set>
static llvm::Expected<std::unique_ptr<TensorSet>>
widen(llvm::Expected<std::unique_ptr<Set>> tensors) {
  if (!tensors)
    return tensors.takeError();
  return std::move(*tensors);
}

llvm::Expected<std::unique_ptr<TensorSet>>
cleave::runtime::openCheckpointLoss(llvm::StringRef checkpoint) {
  if (fs::exists(checkpoint + "/" + kPartsIndex)) {
    auto tensors = PartedTensors::open(checkpoint, getGroupName(CheckpointGroup::Loss));
    if (tensors && (*tensors)->entries().empty())
      return nullptr;
    return widen(std::move(tensors));
  }
  std::string path = (checkpoint + "/" + kLoss).str();
  return fs::exists(path) ? widen(SafetensorsFile::open(path)) : nullptr;
}

//===----------------------------------------------------------------------===//
// The directory
//===----------------------------------------------------------------------===//

/// Calls `visit` with each name in a directory.
static llvm::Error forEachName(llvm::StringRef directory,
                               llvm::function_ref<void(llvm::StringRef)> visit) {
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    visit(llvm::sys::path::filename(it->path()));
  if (error)
    return makeError("{0}: cannot read the directory: {1}", directory, error.message());
  return llvm::Error::success();
}

llvm::Expected<std::vector<int64_t>> cleave::runtime::listCheckpoints(llvm::StringRef directory) {
  std::vector<int64_t> steps;
  if (!fs::exists(directory))
    return steps;
  llvm::Error error = forEachName(directory, [&](llvm::StringRef name) {
    int64_t step;
    if (name.consume_front(kPrefix) && !name.getAsInteger(10, step) && step >= 0)
      steps.push_back(step);
  });
  if (error)
    return error;
  llvm::sort(steps);
  return steps;
}

llvm::Expected<std::unique_ptr<CheckpointDirectory>>
CheckpointDirectory::open(llvm::StringRef path) {
  if (llvm::Error error = checkWritableDirectory(path))
    return error;
  std::unique_ptr<CheckpointDirectory> directory(new CheckpointDirectory);
  directory->path = path.str();
  std::string lockPath = directory->path + "/.lock";
  directory->lock = ::open(lockPath.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (directory->lock < 0)
    return makeSystemError(lockPath, "write");
  if (::flock(directory->lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return makeError("{0}: another run is writing its checkpoints to this directory", path);
    return makeSystemError(lockPath, "lock");
  }
  std::vector<std::string> leftovers;
  if (llvm::Error error = forEachName(path, [&](llvm::StringRef name) {
        if (name.starts_with(kTemporaryPrefix))
          leftovers.push_back((path + "/" + name).str());
      }))
    return error;
  for (const std::string &leftover : leftovers)
    if (std::error_code error = fs::remove_directories(leftover, /*IgnoreErrors=*/false))
      return makeError("{0}: cannot remove the remains of a killed run: {1}", leftover,
                       error.message());
  return directory;
}

CheckpointDirectory::~CheckpointDirectory() {
  if (lock >= 0)
    ::close(lock);
}

//===----------------------------------------------------------------------===//
// state.json
//===----------------------------------------------------------------------===//

static std::string toHex(uint64_t value) {
  return llvm::utohexstr(value, /*LowerCase=*/true, 16);
}

static json::Object toJson(const CheckpointState &state, bool isParted) {
  json::Object object{{"format", isParted ? kPartsFormatVersion : kFormatVersion},
                      {"step", state.step},
                      {"seed", state.seed},
                      {"rng", json::Object{{"generator", "mt19937"}, {"offset", state.rngOffset}}},
                      {"microbatches", state.microbatches},
                      {"ranks", state.ranks},
                      {"program", state.programFingerprint},
                      {"data", json::Object{{"source", state.data},
                                            {"fingerprint", toHex(state.dataFingerprint)},
                                            {"position", state.dataPosition}}}};
  json::Array rates;
  for (double rate : state.learningRates)
    rates.push_back(rate);
  object["learning_rates"] = std::move(rates);
  if (!state.evaluations.empty())
    object["evaluations"] = state.evaluations.toJson();
  if (state.lossScale)
    object["loss_scale"] = json::Object{{"scale", double(state.lossScale->scale)},
                                        {"steps", state.lossScale->steps},
                                        {"skipped", state.lossScale->skipped}};
  return object;
}

/// Reads the fields of state.json, remembering the first one that is missing or malformed.
class StateReader {
public:
  void get(const json::Object *object, const char *name, int64_t &value) {
    std::optional<int64_t> found = object ? object->getInteger(name) : std::nullopt;
    found && *found >= 0 ? void(value = *found) : fail(name, "an integer from 0");
  }
  void get(const json::Object *object, const char *name, std::string &value) {
    std::optional<llvm::StringRef> found = object ? object->getString(name) : std::nullopt;
    found ? void(value = found->str()) : fail(name, "a string");
  }
  void getUnsigned(const json::Object *object, const char *name, uint64_t &value) {
    const json::Value *found = object ? object->get(name) : nullptr;
    std::optional<uint64_t> number = found ? found->getAsUINT64() : std::nullopt;
    number ? void(value = *number) : fail(name, "an integer from 0");
  }
  void getHex(const json::Object *object, const char *name, uint64_t &value) {
    std::optional<llvm::StringRef> found = object ? object->getString(name) : std::nullopt;
    if (!found || found->getAsInteger(16, value))
      fail(name, "16 hexadecimal digits");
  }
  /// Fields that older checkpoints do not have.
  void getOptional(const json::Object &object, const char *name, std::vector<double> &values) {
    const json::Value *found = object.get(name);
    const json::Array *array = found ? found->getAsArray() : nullptr;
    if (found && !array)
      return fail(name, "a list of numbers");
    for (const json::Value &value : array ? *array : json::Array())
      if (std::optional<double> number = value.getAsNumber())
        values.push_back(*number);
      else
        return fail(name, "a list of numbers");
  }
  void getOptional(const json::Object &object, const char *name, EvaluationHistory &history) {
    const json::Value *found = object.get(name);
    std::optional<EvaluationHistory> read =
        found ? EvaluationHistory::fromJson(*found) : EvaluationHistory();
    read ? void(history = *read) : fail(name, "losses and numbers of evaluations");
  }
  void getOptional(const json::Object &object, const char *name, std::optional<LossScale> &scale) {
    const json::Value *found = object.get(name);
    if (!found)
      return;
    const json::Object *fields = found->getAsObject();
    std::optional<double> number = fields ? fields->getNumber("scale") : std::nullopt;
    LossScale read{float(number.value_or(0)), 0, 0};
    get(fields, "steps", read.steps);
    get(fields, "skipped", read.skipped);
    read.scale > 0 && std::isfinite(read.scale) ? void(scale = read)
                                                : fail(name, "a scale above 0 and counts of steps");
  }
  std::string problem;

private:
  void fail(const char *name, const char *expected) {
    if (problem.empty())
      problem = llvm::formatv("expected {0} as \"{1}\"", expected, name).str();
  }
};

/// Compares one of the checkpoint's files with what state.json says of it.
static llvm::Error checkFile(llvm::StringRef path, const json::Object *summary, bool hasHash) {
  StateReader reader;
  int64_t bytes = 0;
  uint64_t hash = 0;
  reader.get(summary, "bytes", bytes);
  reader.getHex(summary, "xxh3", hash);
  if (!reader.problem.empty())
    return makeError("{0}: not described in state.json: {1}", path, reader.problem);
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  if (int64_t((*file)->bytes().size()) != bytes)
    return makeError("{0}: expected {1} bytes, found {2}: the checkpoint is damaged", path, bytes,
                     (*file)->bytes().size());
  if (hasHash && llvm::xxh3_64bits((*file)->bytes()) != hash)
    return makeError(
        "{0}: its contents have changed since it was written: the checkpoint is damaged", path);
  return llvm::Error::success();
}

static llvm::Error checkWholeFiles(llvm::StringRef path, const json::Object *files) {
  for (llvm::StringRef name : {kModel, kLoss, kOptimizer}) {
    std::string filePath = (path + "/" + name).str();
    // A loss without state has none.
    if (name == kLoss && !(files && files->get(kLoss)) && !fs::exists(filePath))
      continue;
    if (llvm::Error error =
            checkFile(filePath, files ? files->getObject(name) : nullptr, /*hasHash=*/true))
      return error;
  }
  return llvm::Error::success();
}

/// Ranks share the work of reading every byte.
static llvm::Error checkPartFiles(llvm::StringRef path, const json::Object *files, int rank,
                                  int ranks) {
  if (!files || !files->get(kPartsIndex))
    return makeError("{0}/{1}: not described in state.json", path, kPartsIndex);
  std::vector<std::string> names;
  for (const auto &[name, summary] : *files)
    names.push_back(name.str());
  llvm::sort(names);
  for (auto [index, name] : llvm::enumerate(names)) {
    if (name.find('/') != std::string::npos)
      return makeError("{0}/{1}: expected files of the same folder, found \"{2}\"", path, kState,
                       name);
    bool isMine = int(index) % ranks == rank || name == kPartsIndex;
    if (llvm::Error error =
            checkFile(llvm::formatv("{0}/{1}", path, name).str(), files->getObject(name), isMine))
      return error;
  }
  return llvm::Error::success();
}

static llvm::Expected<std::unique_ptr<TensorSet>> openGroup(llvm::StringRef path, bool isParted,
                                                            CheckpointGroup group) {
  llvm::StringRef name = getGroupName(group);
  if (isParted)
    return widen(PartedTensors::open(path, name));
  return widen(SafetensorsFile::open(llvm::formatv("{0}/{1}.safetensors", path, name).str()));
}

llvm::Expected<Checkpoint> cleave::runtime::readCheckpoint(llvm::StringRef path, int rank,
                                                           int ranks) {
  Checkpoint checkpoint;
  checkpoint.path = path.str();
  std::string statePath = (path + "/" + kState).str();
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(statePath);
  if (!file)
    return file.takeError();
  llvm::Expected<json::Value> value =
      parseJsonStrictly(llvm::toStringRef((*file)->bytes()), /*maxDepth=*/8);
  if (!value)
    return makeError("{0}: {1}", statePath, llvm::toString(value.takeError()));

  const json::Object *object = value->getAsObject();
  CheckpointState &state = checkpoint.state;
  StateReader reader;
  int64_t format = 0;
  reader.get(object, "format", format);
  bool isParted = format == kPartsFormatVersion;
  if (reader.problem.empty() && format != kFormatVersion && !isParted)
    return makeError("{0}: expected checkpoint format {1} or {2}, found {3}", statePath,
                     kFormatVersion, kPartsFormatVersion, format);
  reader.get(object, "step", state.step);
  reader.getUnsigned(object, "seed", state.seed);
  reader.get(object ? object->getObject("rng") : nullptr, "offset", state.rngOffset);
  reader.get(object, "microbatches", state.microbatches);
  reader.get(object, "ranks", state.ranks);
  reader.get(object, "program", state.programFingerprint);
  const json::Object *data = object ? object->getObject("data") : nullptr;
  reader.get(data, "source", state.data);
  reader.getHex(data, "fingerprint", state.dataFingerprint);
  reader.get(data, "position", state.dataPosition);
  if (object) {
    reader.getOptional(*object, "learning_rates", state.learningRates);
    reader.getOptional(*object, "evaluations", state.evaluations);
    reader.getOptional(*object, "loss_scale", state.lossScale);
  }
  if (!reader.problem.empty())
    return makeError("{0}: {1}", statePath, reader.problem);

  const json::Object *files = object->getObject("files");
  if (llvm::Error error =
          isParted ? checkPartFiles(path, files, rank, ranks) : checkWholeFiles(path, files))
    return error;
  if (llvm::Error error =
          openGroup(path, isParted, CheckpointGroup::Model).moveInto(checkpoint.model))
    return error;
  if (llvm::Error error =
          openGroup(path, isParted, CheckpointGroup::Optimizer).moveInto(checkpoint.optimizer))
    return error;
  if (llvm::Error error = openCheckpointLoss(path).moveInto(checkpoint.loss))
    return error;
  return checkpoint;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

llvm::Error CheckpointDirectory::begin(int64_t step) const {
  std::string unfinished = getUnfinishedPath(path, step);
  if (std::error_code error =
          fs::create_directory(unfinished, /*IgnoreExisting=*/false, fs::all_all))
    return makeError("{0}: cannot create the directory: {1}", unfinished, error.message());
  return llvm::Error::success();
}

llvm::Error CheckpointDirectory::write(const CheckpointState &state,
                                       llvm::ArrayRef<TensorView> model,
                                       llvm::ArrayRef<TensorView> optimizer, int64_t keepLast,
                                       llvm::ArrayRef<TensorView> loss) const {
  if (llvm::Error error = begin(state.step))
    return error;
  std::string unfinished = getUnfinishedPath(path, state.step);
  json::Object files;
  for (auto [name, tensors] :
       {std::pair(kModel, model), std::pair(kLoss, loss), std::pair(kOptimizer, optimizer)}) {
    if (name == kLoss && tensors.empty())
      continue;
    std::string filePath = unfinished + "/" + name.str();
    std::map<std::string, std::string> metadata;
    if (name != kOptimizer)
      metadata["format"] = "pt";
    if (llvm::Error error = writeSafetensors(filePath, tensors, metadata))
      return error;
    llvm::Expected<json::Object> summary = summarizeFile(filePath);
    if (!summary)
      return summary.takeError();
    files[name] = std::move(*summary);
  }
  return publish(state, std::move(files), keepLast);
}

llvm::Error CheckpointDirectory::publish(const CheckpointState &state, json::Object files,
                                         int64_t keepLast) const {
  std::string unfinished = getUnfinishedPath(path, state.step);
  std::string target = getCheckpointPath(path, state.step);
  json::Object object = toJson(state, /*isParted=*/files.get(kPartsIndex) != nullptr);
  object["files"] = std::move(files);
  std::string text = llvm::formatv("{0:2}\n", json::Value(std::move(object))).str();
  if (llvm::Error error = writeText(unfinished + "/" + kState.str(), text))
    return error;
  if (::rename(unfinished.c_str(), target.c_str()) != 0)
    return makeSystemError(target, "write");
  if (llvm::Error error = syncDirectory(path))
    return error;
  return keepLast > 0 ? removeOld(keepLast) : llvm::Error::success();
}

llvm::Error CheckpointDirectory::removeOld(int64_t keepLast) const {
  llvm::Expected<std::vector<int64_t>> steps = listCheckpoints(path);
  if (!steps)
    return steps.takeError();
  for (int64_t step : llvm::ArrayRef(*steps).drop_back(std::min<size_t>(keepLast, steps->size()))) {
    // Renamed first: a directory that is half removed must not look like a checkpoint.
    std::string old = getCheckpointPath(path, step);
    if (fs::equivalent(old, path + "/" + kBest))
      continue;
    std::string dying = llvm::formatv("{0}/{1}removing-{2}", path, kTemporaryPrefix, step).str();
    if (::rename(old.c_str(), dying.c_str()) != 0)
      return makeSystemError(old, "remove");
    if (std::error_code error = fs::remove_directories(dying, /*IgnoreErrors=*/false))
      return makeError("{0}: cannot remove: {1}", dying, error.message());
  }
  return llvm::Error::success();
}
