//===- TensorFiles.cpp - weights, inputs and dumps of a session --------------===//

#include "runtime/session/TensorFiles.h"
#include "dialects/train/StateDict.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/program/Form.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace cleave;
using namespace cleave::runtime;

/// How many differences a message names; more of them mostly have one cause.
static constexpr size_t kMaxDifferences = 20;

static TensorType fileType(const TensorView &tensor) {
  return {tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}};
}

/// The tensor of a value, under its name or one of its aliases.
static const TensorView *findTensor(const SafetensorsFile &file, const ValueInfo &value) {
  if (const TensorView *tensor = file.find(value.name))
    return tensor;
  for (const std::string &alias : value.aliases)
    if (const TensorView *tensor = file.find(alias))
      return tensor;
  return nullptr;
}

llvm::Error cleave::runtime::checkTensors(const SafetensorsFile &file,
                                          llvm::ArrayRef<ValueInfo> expected, const RankGrid &grid,
                                          llvm::StringRef what,
                                          llvm::function_ref<bool(llvm::StringRef)> mayBeExtra) {
  std::vector<std::string> differences;
  llvm::StringSet<> known;
  for (const ValueInfo &value : expected) {
    if (llvm::Error error = checkReadable(value)) {
      differences.push_back(llvm::toString(std::move(error)));
      continue;
    }
    std::string type = describeWhole(value, grid);
    const TensorView *first = findTensor(file, value);
    if (!first)
      differences.push_back(llvm::formatv("missing: '{0}' ({1})", value.name, type));
    auto check = [&](llvm::StringRef name) {
      known.insert(name);
      const TensorView *tensor = file.find(name);
      if (!tensor)
        return;
      if (!isWholeOf(value, fileType(*tensor), grid))
        differences.push_back(llvm::formatv("'{0}': the program has {1}, the file {2}", name, type,
                                            describe(tensor->dtype, tensor->shape)));
      else if (tensor->bytes != first->bytes)
        differences.push_back(llvm::formatv("'{0}' is tied to '{1}' in the program, but has other "
                                            "values in the file",
                                            name, first->name));
    };
    check(value.name);
    for (const std::string &alias : value.aliases)
      check(alias);
  }
  for (const TensorView &tensor : file.tensors())
    if (!known.contains(tensor.name) && !(mayBeExtra && mayBeExtra(tensor.name)))
      differences.push_back(
          llvm::formatv("extra: '{0}' ({1})", tensor.name, describe(tensor.dtype, tensor.shape)));
  if (differences.empty())
    return llvm::Error::success();

  std::string text;
  size_t shown = std::min(differences.size(), kMaxDifferences);
  for (size_t i = 0; i < shown; ++i)
    text += "\n  " + differences[i];
  if (shown < differences.size())
    text += "\n  ... and " + std::to_string(differences.size() - shown) + " more";
  return makeError("{0}: the {1} do not match the program:{2}", file.path(), what, text);
}

llvm::Error cleave::runtime::readTensors(
    const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> values, const RankGrid &grid,
    llvm::StringRef what,
    llvm::function_ref<llvm::Expected<TensorRef>(const ValueInfo &)> destination,
    llvm::function_ref<bool(llvm::StringRef)> mayBeExtra,
    llvm::function_ref<bool(const ValueInfo &)> isHere) {
  if (llvm::Error error = checkTensors(file, values, grid, what, mayBeExtra))
    return error;
  for (const ValueInfo &value : values) {
    if (isHere && !isHere(value))
      continue;
    llvm::Expected<TensorRef> target = destination(value);
    if (!target)
      return target.takeError();
    const TensorView *tensor = findTensor(file, value);
    readPart(value, {fileType(*tensor), reinterpret_cast<const char *>(tensor->bytes.data())}, grid,
             *target);
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::readLossState(const SafetensorsFile &file,
                                           llvm::ArrayRef<ValueInfo> values, Session &session,
                                           llvm::StringRef what) {
  std::vector<ValueInfo> named;
  for (ValueInfo value : values) {
    value.name.erase(0, train::kLossPrefix.size());
    for (std::string &alias : value.aliases)
      alias.erase(0, train::kLossPrefix.size());
    named.push_back(std::move(value));
  }
  auto inProgram = [](llvm::StringRef name) { return (train::kLossPrefix + name).str(); };
  // What the loss shares with the model is in the model's file too.
  llvm::StringSet<> known = listLossState(session.program());
  return readTensors(
      file, named, session.grid(), what,
      [&](const ValueInfo &value) { return session.weight(inProgram(value.name)); },
      [&](llvm::StringRef name) { return known.contains(inProgram(name)); },
      [&](const ValueInfo &value) { return session.hasWeight(inProgram(value.name)); });
}

llvm::Error cleave::runtime::loadWeights(Session &session, llvm::StringRef path,
                                         llvm::StringRef others) {
  bool isCheckpoint = llvm::sys::fs::is_directory(path);
  auto file = SafetensorsFile::open(isCheckpoint ? getCheckpointModel(path) : path.str());
  if (!file)
    return file.takeError();
  llvm::StringSet<> transient = listTransientBuffers(session.program());
  llvm::StringSet<> lossState = listLossState(session.program());
  bool hasLoss = isCheckpoint && llvm::sys::fs::exists(getCheckpointLoss(path));
  std::vector<ValueInfo> values, loss, leftOut;
  for (const ValueInfo &value : session.program().weights()) {
    if (hasLoss && lossState.contains(value.name) && !transient.contains(value.name)) {
      loss.push_back(value);
      continue;
    }
    bool mayBeElsewhere = value.role == RoleKind::Constant || transient.contains(value.name);
    bool isElsewhere = mayBeElsewhere && !others.empty() && !findTensor(**file, value);
    (isElsewhere ? leftOut : values).push_back(value);
  }
  auto read = [&](const SafetensorsFile &from, llvm::ArrayRef<ValueInfo> wanted,
                  llvm::function_ref<bool(llvm::StringRef)> mayBeExtra) {
    return readTensors(
        from, wanted, session.grid(), "weights",
        [&](const ValueInfo &value) { return session.weight(value.name); }, mayBeExtra,
        [&](const ValueInfo &value) { return session.hasWeight(value.name); });
  };
  if (llvm::Error error = read(**file, values, nullptr))
    return error;
  if (hasLoss) {
    auto lossFile = SafetensorsFile::open(getCheckpointLoss(path));
    if (!lossFile)
      return lossFile.takeError();
    if (llvm::Error error = readLossState(**lossFile, loss, session, "weights of the loss"))
      return error;
  }
  if (leftOut.empty())
    return llvm::Error::success();
  auto rest = SafetensorsFile::open(others);
  if (!rest)
    return makeError(
        "{0}: '{1}', which state dicts omit, is not in it and cannot be read from next to "
        "the program: {2}",
        path, leftOut.front().name, llvm::toString(rest.takeError()));
  return read(**rest, leftOut, [](llvm::StringRef) { return true; });
}

llvm::Error cleave::runtime::dump(llvm::ArrayRef<WholeTensor> tensors, OutputFile &file) {
  std::vector<TensorView> views;
  for (const WholeTensor &tensor : tensors) {
    TensorView view;
    view.name = tensor.name;
    view.dtype = tensor.type.dtype;
    view.shape.assign(tensor.type.shape.begin(), tensor.type.shape.end());
    view.bytes = {reinterpret_cast<const uint8_t *>(tensor.bytes.data()), tensor.bytes.size()};
    views.push_back(std::move(view));
  }
  return writeSafetensors(file, views);
}
