//===- State.cpp - between a session and its checkpoints ------------------===//

#include "runtime/train/State.h"
#include "runtime/exec/TensorFiles.h"
#include <cstring>

using namespace cleave::runtime;

static TensorView viewOf(std::string name, const TensorRef &tensor) {
  return {std::move(name),
          tensor.type.dtype,
          {tensor.type.shape.begin(), tensor.type.shape.end()},
          {reinterpret_cast<const uint8_t *>(tensor.data), tensor.bytes().size()}};
}

llvm::Expected<std::vector<TensorView>> cleave::runtime::viewModel(Session &session) {
  std::vector<TensorView> views;
  for (const ValueInfo &value : session.program().weights()) {
    // Constants never change: the weights file has them.
    if (value.role == RoleKind::Constant)
      continue;
    llvm::Expected<TensorRef> tensor = session.weight(value.name);
    if (!tensor)
      return tensor.takeError();
    views.push_back(viewOf(value.name, *tensor));
  }
  return views;
}

llvm::Expected<std::vector<TensorView>> cleave::runtime::viewOptimizer(Session &session) {
  std::vector<TensorView> views;
  for (const ValueInfo &value : session.program().optimizerStates()) {
    llvm::Expected<TensorRef> tensor = session.optimizerState(value.name, value.slot);
    if (!tensor)
      return tensor.takeError();
    views.push_back(viewOf(value.name + "." + value.slot, *tensor));
  }
  return views;
}

/// Checks the file against the tensors that `values` describe and copies its bytes over `views`.
static llvm::Error copyFrom(const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> values,
                            llvm::Expected<std::vector<TensorView>> views, llvm::StringRef what) {
  if (!views)
    return views.takeError();
  if (llvm::Error error = checkTensors(file, values, what))
    return error;
  for (const TensorView &view : *views) {
    // The session handed its memory out for writing; only the view type is for reading.
    if (!view.bytes.empty())
      std::memcpy(const_cast<uint8_t *>(view.bytes.data()), file.find(view.name)->bytes.data(),
                  view.bytes.size());
  }
  return llvm::Error::success();
}

llvm::Error cleave::runtime::restore(Session &session, const Checkpoint &checkpoint) {
  std::vector<ValueInfo> model, optimizer;
  for (ValueInfo value : session.program().weights())
    if (value.role != RoleKind::Constant) {
      value.aliases.clear(); // a checkpoint has a tied parameter once
      model.push_back(std::move(value));
    }
  for (ValueInfo value : session.program().optimizerStates()) {
    value.name += "." + value.slot;
    optimizer.push_back(std::move(value));
  }
  if (llvm::Error error = copyFrom(*checkpoint.model, model, viewModel(session),
                                   "parameters and buffers of the checkpoint"))
    return error;
  return copyFrom(*checkpoint.optimizer, optimizer, viewOptimizer(session),
                  "optimizer states of the checkpoint");
}
