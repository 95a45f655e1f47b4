//===- TensorFiles.cpp - weights, inputs and dumps of a session --------------===//

#include "runtime/exec/TensorFiles.h"

#include "llvm/ADT/StringSet.h"

#include <cstring>

using namespace cleave::runtime;

/// How many differences a message names; more of them mostly have one cause.
static constexpr size_t kMostDifferences = 20;

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
                                          llvm::ArrayRef<ValueInfo> expected,
                                          llvm::StringRef what) {
  std::vector<std::string> differences;
  llvm::StringSet<> known;
  for (const ValueInfo &value : expected) {
    std::string type = value.type.str();
    const TensorView *first = findTensor(file, value);
    if (!first)
      differences.push_back(llvm::formatv("missing: '{0}' ({1})", value.name, type));
    auto check = [&](llvm::StringRef name) {
      known.insert(name);
      const TensorView *tensor = file.find(name);
      if (!tensor)
        return;
      if (tensor->dtype != value.type.dtype ||
          llvm::ArrayRef(tensor->shape) != llvm::ArrayRef(value.type.shape))
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
    if (!known.contains(tensor.name))
      differences.push_back(
          llvm::formatv("extra: '{0}' ({1})", tensor.name, describe(tensor.dtype, tensor.shape)));
  if (differences.empty())
    return llvm::Error::success();

  std::string text;
  size_t shown = std::min(differences.size(), kMostDifferences);
  for (size_t i = 0; i < shown; ++i)
    text += "\n  " + differences[i];
  if (shown < differences.size())
    text += "\n  ... and " + std::to_string(differences.size() - shown) + " more";
  return makeError("{0}: the {1} do not fit the program:{2}", file.path(), what, text);
}

static llvm::Error
load(llvm::StringRef path, llvm::ArrayRef<ValueInfo> values, llvm::StringRef what,
     llvm::function_ref<llvm::Expected<TensorRef>(llvm::StringRef)> destination) {
  auto file = SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = checkTensors(**file, values, what))
    return error;
  for (const ValueInfo &value : values) {
    llvm::Expected<TensorRef> target = destination(value.name);
    if (!target)
      return target.takeError();
    llvm::ArrayRef<uint8_t> bytes = findTensor(**file, value)->bytes;
    if (!bytes.empty())
      std::memcpy(target->data, bytes.data(), bytes.size());
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::loadWeights(Session &session, llvm::StringRef path) {
  return load(path, session.program().weights(), "weights",
              [&](llvm::StringRef name) { return session.weight(name); });
}

llvm::Error cleave::runtime::loadInputs(Session &session, llvm::StringRef path) {
  return load(path, session.program().inputs(), "inputs",
              [&](llvm::StringRef name) { return session.input(name); });
}

llvm::Error cleave::runtime::dumpResults(Session &session, llvm::StringRef path) {
  std::vector<TensorView> views;
  for (const ValueInfo &value : session.program().outcomes()) {
    llvm::Expected<ConstTensorRef> result = session.result(value.fileName);
    if (!result)
      return result.takeError();
    TensorView view;
    view.name = value.fileName;
    view.dtype = result->type.dtype;
    view.shape.assign(result->type.shape.begin(), result->type.shape.end());
    view.bytes = {reinterpret_cast<const uint8_t *>(result->data), size_t(result->type.numBytes())};
    views.push_back(std::move(view));
  }
  return writeSafetensors(path, views);
}
