//===- State.cpp - between a session and its checkpoints ------------------===//

#include "runtime/train/State.h"
#include "dialects/train/StateDict.h"
#include "runtime/program/Form.h"
#include "runtime/ranks/StageMap.h"
#include "runtime/session/TensorFiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace cleave;
using namespace cleave::runtime;

/// Constants never change: the weights file has them.
static bool isState(const ValueInfo &value) {
  return value.role != RoleKind::Constant;
}

static std::string getStateName(const ValueInfo &value) {
  return value.name + "." + value.slot;
}

/// The further names of a moving average, which is a tied parameter's under each of its names.
static std::vector<std::string> listAliases(const Program &program, const ValueInfo &state) {
  std::vector<std::string> names;
  if (state.slot != train::kAverageSlot)
    return names;
  for (const ValueInfo &value : program.weights())
    if (value.role == RoleKind::Parameter && value.name == state.name)
      for (const std::string &alias : value.aliases)
        names.push_back(alias + "." + state.slot);
  return names;
}

/// What the program makes of the buffer belongs to a run, though not to the model's state dict.
static bool isChanged(const Program &program, const ValueInfo &buffer) {
  return llvm::any_of(program.results(Phase::Microbatch), [&](const ValueInfo &result) {
    return result.role == RoleKind::Buffer && result.name == buffer.name;
  });
}

namespace {
/// A tensor of a checkpoint.
struct StateTensor {
  CheckpointGroup group;
  std::string name;
  const ValueInfo *value;
  /// Under which name the group has had the value already; else empty.
  std::string aliasOf;
  /// Where along the pipeline axis it is written.
  int place;
};
} // namespace

static void addNames(std::vector<StateTensor> &list, const llvm::StringSet<> &lossState,
                     const ValueInfo &value, int place) {
  std::vector<std::string> names = {value.name};
  llvm::append_range(names, value.aliases);
  std::string inModel, inLoss;
  for (llvm::StringRef name : names) {
    bool isLoss = lossState.contains(name);
    if (isLoss)
      name = name.drop_front(train::kLossPrefix.size());
    std::string &first = isLoss ? inLoss : inModel;
    list.push_back({isLoss ? CheckpointGroup::Loss : CheckpointGroup::Model, name.str(), &value,
                    first, place});
    if (first.empty())
      first = name.str();
  }
}

/// All that a checkpoint holds.
static std::vector<StateTensor> listState(const Session &session) {
  const Program &program = session.program();
  const StageMap &stages = session.stages();
  llvm::StringSet<> transient = listTransientBuffers(program);
  llvm::StringSet<> lossState = listLossState(program);
  std::vector<StateTensor> list;
  for (const ValueInfo &value : program.weights()) {
    if (!isState(value))
      continue;
    int place = stages.ownerOfWeight(value.name);
    if (!transient.contains(value.name))
      addNames(list, lossState, value, place);
    else if (isChanged(program, value))
      list.push_back({CheckpointGroup::Optimizer, value.fileName, &value, "", place});
  }
  for (const ValueInfo &value : program.optimizerStates()) {
    int place = stages.isScheduled() ? stages.placeOfState(value.name) : 0;
    std::string name = getStateName(value);
    list.push_back({CheckpointGroup::Optimizer, name, &value, "", place});
    for (const std::string &alias : listAliases(program, value))
      list.push_back({CheckpointGroup::Optimizer, alias, &value, name, place});
  }
  return list;
}

static TensorView viewOf(std::string name, const ConstTensorRef &tensor) {
  return {std::move(name),
          tensor.type.dtype,
          {tensor.type.shape.begin(), tensor.type.shape.end()},
          {reinterpret_cast<const uint8_t *>(tensor.data), tensor.bytes().size()}};
}

llvm::Expected<CheckpointViews> cleave::runtime::viewState(Session &session) {
  CheckpointViews views;
  for (const StateTensor &tensor : listState(session)) {
    llvm::Expected<ConstTensorRef> value = session.result(tensor.value->fileName);
    if (!value)
      return value.takeError();
    views[size_t(tensor.group)].push_back(viewOf(tensor.name, *value));
  }
  return views;
}

//===----------------------------------------------------------------------===//
// In parts
//===----------------------------------------------------------------------===//

static bool isPending(const ValueInfo &value) {
  return llvm::any_of(value.placements, [](const AxisPlacement &placement) {
    return placement.kind == AxisPlacement::Kind::Partial;
  });
}

/// The ranks that write a tensor's parts. Of those that hold the same part one does: which one
/// changes from tensor to tensor, so that all write about as much. What types do not call equal
/// (an untyped program's buffers may differ) comes from the first.
static std::vector<int> listWriters(const StateTensor &tensor, size_t number, Session &session) {
  const RankGrid &grid = session.grid();
  std::vector<std::string> replicas;
  std::string pipeline = session.isScheduled() ? session.program().schedule()->axis : "";
  for (const std::string &axis : grid.axisNames()) {
    bool isSharded = llvm::any_of(tensor.value->placements, [&](const AxisPlacement &placement) {
      return placement.kind == AxisPlacement::Kind::Shard && placement.axis == axis;
    });
    if (axis != pipeline && (!isSharded || isPending(*tensor.value)))
      replicas.push_back(axis);
  }
  int64_t count = 1;
  for (const std::string &axis : replicas)
    count *= grid.size(axis);
  bool areEqual = !tensor.value->placements.empty() && !isPending(*tensor.value);
  int64_t chosen = areEqual ? int64_t(number) % count : 0;
  std::vector<int> writers;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    if (!pipeline.empty() && grid.coordinate(pipeline, rank) != tensor.place)
      continue;
    int64_t replica = 0;
    for (const std::string &axis : replicas)
      replica = replica * grid.size(axis) + grid.coordinate(axis, rank);
    if (replica == chosen)
      writers.push_back(rank);
  }
  return writers;
}

/// The tensor with its parts, of which those without elements are left out.
static PartedTensor divide(const StateTensor &tensor, size_t number, Session &session) {
  TensorType whole = wholeType(*tensor.value, session.grid());
  PartedTensor parted;
  parted.name = tensor.name;
  parted.dtype = whole.dtype;
  parted.shape.assign(whole.shape.begin(), whole.shape.end());
  parted.aliasOf = tensor.aliasOf;
  if (!tensor.aliasOf.empty())
    return parted;
  for (int rank : listWriters(tensor, number, session)) {
    Box box = isPending(*tensor.value) ? wholeBox(parted.shape)
                                       : boxOf(*tensor.value, parted.shape, session.grid(), rank);
    if (*countElements(shapeOf(box)) > 0)
      parted.parts.push_back({getPartFile(tensor.group, rank, session.ranks()), std::move(box)});
  }
  return parted;
}

llvm::Expected<StateParts> cleave::runtime::viewParts(Session &session) {
  StateParts state;
  for (auto [number, tensor] : llvm::enumerate(listState(session))) {
    const ValueInfo &value = *tensor.value;
    for (const AxisPlacement &placement : value.placements)
      if (placement.kind == AxisPlacement::Kind::Varying && session.grid().size(placement.axis) > 1)
        return makeError("'{0}' is V along \"{1}\": its shards cannot be saved", value.fileName,
                         placement.axis);
    PartedTensor parted = divide(tensor, number, session);
    std::string mine = getPartFile(tensor.group, session.rank(), session.ranks());
    bool isMine = llvm::any_of(parted.parts, [&](const auto &part) { return part.file == mine; });
    bool isHere = !session.isScheduled() || session.stages().place() == tensor.place;
    // Ranks add a pending sum up together, whichever of them writes it.
    if (isMine || (isHere && tensor.aliasOf.empty() && isPending(value))) {
      llvm::Expected<ConstTensorRef> held = session.result(value.fileName);
      if (!held)
        return held.takeError();
      ConstTensorRef written = *held;
      if (isPending(value)) {
        if (llvm::Error error =
                assemble(value, *held, session.grid()).moveInto(state.assembled.emplace_back()))
          return error;
        written = state.assembled.back().ref();
      }
      if (isMine)
        state.views[size_t(tensor.group)].push_back(viewOf(tensor.name, written));
    }
    state.parts[size_t(tensor.group)].push_back(std::move(parted));
  }
  return state;
}

//===----------------------------------------------------------------------===//
// Back
//===----------------------------------------------------------------------===//

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
  for (ValueInfo &value : optimizer) {
    if (value.role == RoleKind::OptimizerState)
      value.aliases = listAliases(program, value);
    value.name = value.role == RoleKind::Buffer ? value.fileName : getStateName(value);
  }
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
