//===- State.cpp - between a session and its checkpoints ------------------===//

#include "runtime/train/State.h"
#include "runtime/exec/TensorFiles.h"
#include "runtime/pipeline/GatherStages.h"

using namespace cleave::runtime;

static TensorView viewOf(std::string name, const ConstTensorRef &tensor) {
  return {std::move(name),
          tensor.type.dtype,
          {tensor.type.shape.begin(), tensor.type.shape.end()},
          {reinterpret_cast<const uint8_t *>(tensor.data), tensor.bytes().size()}};
}

/// Of what all stages' ranks have, in the order of `names`; empty on all but the first.
static llvm::Expected<StateView> viewGathered(llvm::Expected<std::vector<WholeTensor>> tensors,
                                              llvm::ArrayRef<std::string> names) {
  if (!tensors)
    return tensors.takeError();
  StateView view;
  for (auto [tensor, name] : llvm::zip_first(*tensors, names)) {
    view.assembled.push_back(std::move(tensor));
    view.tensors.push_back(viewOf(name, view.assembled.back().ref()));
  }
  return view;
}

/// Adds the whole of which this rank holds `part`.
static llvm::Error add(Session &session, const ValueInfo &value, std::string name,
                       llvm::Expected<ConstTensorRef> part, StateView &view) {
  if (!part)
    return part.takeError();
  ConstTensorRef tensor = *part;
  if (!value.placements.empty()) {
    llvm::Expected<WholeTensor> whole = assemble(value, *part, session.grid());
    if (!whole)
      return whole.takeError();
    view.assembled.push_back(std::move(*whole));
    tensor = view.assembled.back().ref();
  }
  view.tensors.push_back(viewOf(std::move(name), tensor));
  return llvm::Error::success();
}

llvm::Expected<StateView> cleave::runtime::viewModel(Session &session) {
  if (session.isScheduled()) {
    std::vector<std::string> names;
    for (const ValueInfo &value : session.program().weights())
      if (value.role != RoleKind::Constant)
        names.push_back(value.name);
    return viewGathered(gatherWeights(session), names);
  }
  StateView view;
  for (const ValueInfo &value : session.program().weights()) {
    // Constants never change: the weights file has them.
    if (value.role == RoleKind::Constant)
      continue;
    if (llvm::Error error = add(session, value, value.name, session.result(value.fileName), view))
      return error;
  }
  return view;
}

llvm::Expected<StateView> cleave::runtime::viewOptimizer(Session &session) {
  if (session.isScheduled()) {
    std::vector<std::string> names;
    for (const ValueInfo &value : session.program().optimizerStates())
      names.push_back(value.name + "." + value.slot);
    return viewGathered(gatherOptimizerStates(session), names);
  }
  StateView view;
  for (const ValueInfo &value : session.program().optimizerStates())
    if (llvm::Error error = add(session, value, value.name + "." + value.slot,
                                session.result(value.fileName), view))
      return error;
  return view;
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
  if (llvm::Error error = readTensors(
          *checkpoint.model, model, session.grid(), "parameters and buffers of the checkpoint",
          [&](const ValueInfo &value) { return session.weight(value.name); }, nullptr,
          [&](const ValueInfo &value) { return session.hasWeight(value.name); }))
    return error;
  // A parameter may be frozen from here on: its states have then no further use.
  auto isOfFrozen = [&](llvm::StringRef state) {
    return llvm::any_of(session.program().weights(), [&](const ValueInfo &value) {
      return value.frozen && state.starts_with(value.name + ".") &&
             !state.drop_front(value.name.size() + 1).contains('.');
    });
  };
  return readTensors(
      *checkpoint.optimizer, optimizer, session.grid(), "optimizer states of the checkpoint",
      [&](const ValueInfo &value) {
        llvm::StringRef name = value.name;
        return session.optimizerState(name.drop_back(value.slot.size() + 1), value.slot);
      },
      isOfFrozen,
      [&](const ValueInfo &value) {
        return session.hasOptimizerState(
            llvm::StringRef(value.name).drop_back(value.slot.size() + 1));
      });
}
