//===- TensorFiles.cpp - weights, inputs and dumps of a session --------------===//

#include "runtime/session/TensorFiles.h"
#include "dialects/train/StateDict.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/program/Form.h"
#include "runtime/weights/OpenWeights.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include <cstring>

using namespace cleave;
using namespace cleave::runtime;

/// How many differences a message names; more of them mostly have one cause.
static constexpr size_t kMaxDifferences = 20;

static TensorType fileType(const TensorEntry &tensor) {
  return {tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}};
}

/// The tensor of a value, under its name or one of its aliases.
static const TensorEntry *findTensor(const TensorSet &tensors, const ValueInfo &value) {
  if (const TensorEntry *tensor = tensors.findEntry(value.name))
    return tensor;
  for (const std::string &alias : value.aliases)
    if (const TensorEntry *tensor = tensors.findEntry(alias))
      return tensor;
  return nullptr;
}

/// "'w'", and what the files call it where that is something else.
static std::string quoteName(const TensorSet &tensors, llvm::StringRef name) {
  std::string inFiles = tensors.nameInFiles(name);
  return inFiles == name ? llvm::formatv("'{0}'", name).str()
                         : llvm::formatv("'{0}' (there '{1}')", name, inFiles).str();
}

llvm::Error cleave::runtime::checkTensors(const TensorSet &tensors,
                                          llvm::ArrayRef<ValueInfo> expected, const RankGrid &grid,
                                          llvm::StringRef what,
                                          llvm::function_ref<bool(llvm::StringRef)> mayBeExtra,
                                          llvm::function_ref<bool(const ValueInfo &)> isHere) {
  std::vector<std::string> differences;
  llvm::StringSet<> known;
  for (const ValueInfo &value : expected) {
    if (llvm::Error error = checkReadable(value)) {
      differences.push_back(llvm::toString(std::move(error)));
      continue;
    }
    std::string type = describeWhole(value, grid);
    const TensorEntry *first = findTensor(tensors, value);
    if (!first)
      differences.push_back(
          llvm::formatv("missing: {0} ({1})", quoteName(tensors, value.name), type));
    std::vector<std::string> names = {value.name};
    llvm::append_range(names, value.aliases);
    for (const std::string &name : names) {
      known.insert(name);
      const TensorEntry *tensor = tensors.findEntry(name);
      if (!tensor)
        continue;
      if (!isWholeOf(value, fileType(*tensor), grid)) {
        differences.push_back(llvm::formatv("{0}: the program has {1}, the file {2}",
                                            quoteName(tensors, name), type,
                                            describe(tensor->dtype, tensor->shape)));
        continue;
      }
      if (tensor == first || (isHere && !isHere(value)) ||
          !isWholeOf(value, fileType(*first), grid))
        continue;
      llvm::Expected<bool> areEqual =
          tensors.areEqual(*tensor, *first, boxOf(value, tensor->shape, grid));
      if (!areEqual)
        return areEqual.takeError();
      if (!*areEqual)
        differences.push_back(llvm::formatv("{0} is tied to {1} in the program, but has other "
                                            "values in the file",
                                            quoteName(tensors, name),
                                            quoteName(tensors, first->name)));
    }
  }
  for (const TensorEntry &tensor : tensors.entries())
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
  return makeError("{0}: the {1} do not match the program:{2}", tensors.path(), what, text);
}

llvm::Error cleave::runtime::readTensors(
    const TensorSet &tensors, llvm::ArrayRef<ValueInfo> values, const RankGrid &grid,
    llvm::StringRef what,
    llvm::function_ref<llvm::Expected<TensorRef>(const ValueInfo &)> destination,
    llvm::function_ref<bool(llvm::StringRef)> mayBeExtra,
    llvm::function_ref<bool(const ValueInfo &)> isHere) {
  if (llvm::Error error = checkTensors(tensors, values, grid, what, mayBeExtra, isHere))
    return error;
  for (const ValueInfo &value : values) {
    if (isHere && !isHere(value))
      continue;
    llvm::Expected<TensorRef> target = destination(value);
    if (!target)
      return target.takeError();
    if (isZeroHere(value, grid)) {
      std::memset(target->data, 0, target->bytes().size());
      continue;
    }
    const TensorEntry *tensor = findTensor(tensors, value);
    if (llvm::Error error = tensors.read(*tensor, boxOf(value, tensor->shape, grid),
                                         reinterpret_cast<uint8_t *>(target->data)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::readLossState(const TensorSet &tensors,
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
      tensors, named, session.grid(), what,
      [&](const ValueInfo &value) { return session.weight(inProgram(value.name)); },
      [&](llvm::StringRef name) { return known.contains(inProgram(name)); },
      [&](const ValueInfo &value) { return session.hasWeight(inProgram(value.name)); });
}

/// The tensors at the source, under the program's names.
static llvm::Expected<std::unique_ptr<TensorSet>> openSource(const Program &program,
                                                             const WeightSource &source) {
  llvm::Expected<std::unique_ptr<TensorSet>> tensors = openWeights(source.path);
  if (!tensors || (source.names.file.empty() && source.names.prefix.empty()))
    return tensors;
  std::vector<std::string> wanted;
  for (const ValueInfo &value : program.weights()) {
    wanted.push_back(value.name);
    llvm::append_range(wanted, value.aliases);
  }
  return renameTensors(std::move(*tensors), source.names, wanted);
}

llvm::Error cleave::runtime::loadWeights(Session &session, const WeightSource &source) {
  llvm::Expected<std::unique_ptr<TensorSet>> tensors = openSource(session.program(), source);
  if (!tensors)
    return tensors.takeError();
  llvm::StringSet<> transient = listTransientBuffers(session.program());
  llvm::StringSet<> lossState = listLossState(session.program());
  std::unique_ptr<TensorSet> lossTensors;
  if (llvm::sys::fs::is_directory(source.path))
    if (llvm::Error error = openCheckpointLoss(source.path).moveInto(lossTensors))
      return error;
  std::vector<ValueInfo> values, loss, leftOut;
  for (const ValueInfo &value : session.program().weights()) {
    if (lossTensors && lossState.contains(value.name) && !transient.contains(value.name)) {
      loss.push_back(value);
      continue;
    }
    bool mayBeElsewhere = value.role == RoleKind::Constant || transient.contains(value.name);
    bool isElsewhere = mayBeElsewhere && !source.others.empty() && !findTensor(**tensors, value);
    (isElsewhere ? leftOut : values).push_back(value);
  }
  auto read = [&](const TensorSet &from, llvm::ArrayRef<ValueInfo> wanted,
                  llvm::function_ref<bool(llvm::StringRef)> mayBeExtra) {
    return readTensors(
        from, wanted, session.grid(), "weights",
        [&](const ValueInfo &value) { return session.weight(value.name); }, mayBeExtra,
        [&](const ValueInfo &value) { return session.hasWeight(value.name); });
  };
  if (llvm::Error error = read(**tensors, values, nullptr))
    return error;
  if (lossTensors)
    if (llvm::Error error = readLossState(*lossTensors, loss, session, "weights of the loss"))
      return error;
  if (leftOut.empty())
    return llvm::Error::success();
  auto rest = SafetensorsFile::open(source.others);
  if (!rest)
    return makeError(
        "{0}: '{1}', which state dicts omit, is not in it and cannot be read from next to "
        "the program: {2}",
        source.path, leftOut.front().name, llvm::toString(rest.takeError()));
  return read(**rest, leftOut, [](llvm::StringRef) { return true; });
}

llvm::Error cleave::runtime::readConstants(Session &session, const std::string &file,
                                           llvm::function_ref<bool(const ValueInfo &)> isOwn) {
  std::vector<ValueInfo> own;
  llvm::copy_if(session.program().weights(), std::back_inserter(own), isOwn);
  if (own.empty())
    return llvm::Error::success();
  auto tensors = SafetensorsFile::open(file);
  if (!tensors)
    return tensors.takeError();
  return readTensors(
      **tensors, own, session.grid(), "constants",
      [&](const ValueInfo &value) { return session.weight(value.name); },
      [](llvm::StringRef) { return true; },
      [&](const ValueInfo &value) { return session.hasWeight(value.name); });
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
