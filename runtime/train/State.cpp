//===- State.cpp - between a session and its checkpoints ------------------===//

#include "runtime/train/State.h"
#include "dialects/train/StateDict.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/GatherStages.h"
#include "runtime/session/TensorFiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace cleave;
using namespace cleave::runtime;

static TensorView viewOf(std::string name, const ConstTensorRef &tensor) {
  return {std::move(name),
          tensor.type.dtype,
          {tensor.type.shape.begin(), tensor.type.shape.end()},
          {reinterpret_cast<const uint8_t *>(tensor.data), tensor.bytes().size()}};
}

/// The tensor of a value, of which this rank of an unscheduled program holds a part.
static llvm::Expected<ConstTensorRef> viewWhole(Session &session, const ValueInfo &value,
                                                StateView &view) {
  llvm::Expected<ConstTensorRef> part = session.result(value.fileName);
  if (!part || value.placements.empty())
    return part;
  llvm::Expected<WholeTensor> whole = assemble(value, *part, session.grid());
  if (!whole)
    return whole.takeError();
  view.assembled.push_back(std::move(*whole));
  return view.assembled.back().ref();
}

/// Calls `add` with each value that `isWanted` and its tensor, which lives as long as `view`.
/// `gather` is for scheduled programs, whose ranks have them on the first place only.
static llvm::Error
forEach(Session &session, llvm::ArrayRef<ValueInfo> values,
        llvm::function_ref<bool(const ValueInfo &)> isWanted,
        llvm::function_ref<llvm::Expected<std::vector<WholeTensor>>(Session &)> gather,
        StateView &view, llvm::function_ref<void(const ValueInfo &, const ConstTensorRef &)> add) {
  auto wanted = llvm::make_filter_range(values, isWanted);
  if (!session.isScheduled()) {
    for (const ValueInfo &value : wanted) {
      llvm::Expected<ConstTensorRef> tensor = viewWhole(session, value, view);
      if (!tensor)
        return tensor.takeError();
      add(value, *tensor);
    }
    return llvm::Error::success();
  }
  llvm::Expected<std::vector<WholeTensor>> tensors = gather(session);
  if (!tensors)
    return tensors.takeError();
  for (auto [tensor, value] : llvm::zip_first(*tensors, wanted)) {
    view.assembled.push_back(std::move(tensor));
    add(value, view.assembled.back().ref());
  }
  return llvm::Error::success();
}

/// Constants never change: the weights file has them.
static bool isState(const ValueInfo &value) {
  return value.role != RoleKind::Constant;
}

static std::string getStateName(const ValueInfo &value) {
  return value.name + "." + value.slot;
}

/// What the program makes of the buffer belongs to a run, though not to the model's state dict.
static bool isChanged(const Program &program, const ValueInfo &buffer) {
  return llvm::any_of(program.results(Phase::Microbatch), [&](const ValueInfo &result) {
    return result.role == RoleKind::Buffer && result.name == buffer.name;
  });
}

llvm::Expected<StateView> cleave::runtime::viewState(Session &session) {
  const Program &program = session.program();
  llvm::StringSet<> transient = listTransientBuffers(program);
  llvm::StringSet<> lossState = listLossState(program);
  StateView view;
  auto addNamed = [&](llvm::StringRef name, const ConstTensorRef &tensor) {
    if (lossState.contains(name))
      view.loss.push_back(viewOf(name.drop_front(train::kLossPrefix.size()).str(), tensor));
    else
      view.model.push_back(viewOf(name.str(), tensor));
  };
  auto addWeight = [&](const ValueInfo &value, const ConstTensorRef &tensor) {
    if (!transient.contains(value.name)) {
      addNamed(value.name, tensor);
      for (const std::string &alias : value.aliases)
        addNamed(alias, tensor);
    } else if (isChanged(program, value)) {
      view.optimizer.push_back(viewOf(value.fileName, tensor));
    }
  };
  if (llvm::Error error =
          forEach(session, program.weights(), isState, gatherWeights, view, addWeight))
    return error;
  auto addOptimizer = [&](const ValueInfo &value, const ConstTensorRef &tensor) {
    view.optimizer.push_back(viewOf(getStateName(value), tensor));
  };
  auto all = [](const ValueInfo &) { return true; };
  if (llvm::Error error = forEach(session, program.optimizerStates(), all, gatherOptimizerStates,
                                  view, addOptimizer))
    return error;
  return view;
}

llvm::Error cleave::runtime::restore(Session &session, const Checkpoint &checkpoint) {
  const Program &program = session.program();
  std::vector<ValueInfo> model, loss, optimizer;
  llvm::StringSet<> transient = listTransientBuffers(program), lossState = listLossState(program);
  for (const ValueInfo &value : program.weights())
    if (!transient.contains(value.name) && isState(value))
      (checkpoint.loss && lossState.contains(value.name) ? loss : model).push_back(value);
    else if (transient.contains(value.name) && isChanged(program, value))
      optimizer.push_back(value);
  auto isHere = [&](const ValueInfo &value) { return session.hasWeight(value.name); };
  auto weight = [&](const ValueInfo &value) { return session.weight(value.name); };
  // A buffer may have become transient since.
  if (llvm::Error error = readTensors(
          *checkpoint.model, model, session.grid(), "parameters and buffers of the checkpoint",
          weight, [&](llvm::StringRef name) { return transient.contains(name); }, isHere))
    return error;
  if (llvm::Error error = checkpoint.loss
                              ? readLossState(*checkpoint.loss, loss, session,
                                              "parameters and buffers of the checkpoint's loss")
                              : llvm::Error::success())
    return error;
  for (const ValueInfo &value : program.optimizerStates())
    optimizer.push_back(value);
  for (ValueInfo &value : optimizer)
    value.name = value.role == RoleKind::Buffer ? value.fileName : getStateName(value);
  // For values whose names here are those in the file.
  auto originalName = [](const ValueInfo &value) {
    llvm::StringRef name = value.name;
    return value.role == RoleKind::Buffer ? name.drop_front(llvm::StringRef("buffer.").size())
                                          : name.drop_back(value.slot.size() + 1);
  };
  // A parameter may be frozen from here on: its states have then no further use.
  auto isOfFrozen = [&](llvm::StringRef state) {
    return llvm::any_of(program.weights(), [&](const ValueInfo &value) {
      return value.frozen && state.starts_with(value.name + ".") &&
             !state.drop_front(value.name.size() + 1).contains('.');
    });
  };
  return readTensors(
      *checkpoint.optimizer, optimizer, session.grid(), "optimizer states of the checkpoint",
      [&](const ValueInfo &value) {
        llvm::StringRef name = originalName(value);
        return value.role == RoleKind::Buffer ? session.weight(name)
                                              : session.optimizerState(name, value.slot);
      },
      isOfFrozen,
      [&](const ValueInfo &value) {
        llvm::StringRef name = originalName(value);
        return value.role == RoleKind::Buffer ? session.hasWeight(name)
                                              : session.hasOptimizerState(name);
      });
}
