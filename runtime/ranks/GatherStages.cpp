//===- GatherStages.cpp - values of all stages in one place -------------------===//

#include "runtime/ranks/GatherStages.h"
#include "runtime/aten/Facade.h"
#include "runtime/ranks/StageMap.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <cstring>
#include <limits>

using namespace cleave::runtime;

static at::Tensor view(const WholeTensor &tensor) {
  return at::from_blob(const_cast<char *>(tensor.bytes.data()), tensor.type.shape,
                       toScalarType(tensor.type.dtype));
}

static void assign(WholeTensor &whole, const at::Tensor &tensor) {
  at::Tensor flat = tensor.contiguous();
  TensorRef ref = refTo(flat);
  whole.type = ref.type;
  whole.bytes.assign(ref.bytes().begin(), ref.bytes().end());
}

//===----------------------------------------------------------------------===//
// From stage to stage
//===----------------------------------------------------------------------===//

/// Tags of the two messages that bring a tensor; each is complete before the next starts.
static constexpr int kShapeTag = 0, kDataTag = 1;

/// Sends this rank's tensor to the first place.
static llvm::Error sendToFirst(Communicator &ranks, int first, const WholeTensor &tensor) {
  at::Tensor shape = at::empty({int64_t(tensor.type.shape.size())}, at::kLong);
  llvm::copy(tensor.type.shape, shape.mutable_data_ptr<int64_t>());
  if (shape.numel() > 0)
    if (llvm::Error error = ranks.send(shape, first, kShapeTag, "the shape of " + tensor.name))
      return error;
  at::Tensor data = view(tensor).flatten();
  return data.numel() == 0 ? llvm::Error::success()
                           : ranks.send(data, first, kDataTag, tensor.name);
}

static llvm::Expected<WholeTensor> receiveAtFirst(Communicator &ranks, int from,
                                                  const ValueInfo &value) {
  WholeTensor tensor;
  tensor.name = value.fileName;
  at::Tensor shape = at::empty({int64_t(value.type.shape.size())}, at::kLong);
  if (shape.numel() > 0)
    if (llvm::Error error = ranks.receive(shape, from, kShapeTag, "the shape of " + tensor.name))
      return error;
  const int64_t *sizes = shape.const_data_ptr<int64_t>();
  tensor.type = {value.type.dtype, {sizes, sizes + shape.numel()}};
  tensor.bytes.resize(tensor.type.numBytes());
  at::Tensor data = view(tensor).flatten();
  if (data.numel() > 0)
    if (llvm::Error error = ranks.receive(data, from, kDataTag, tensor.name))
      return error;
  return tensor;
}

/// Brings what `make` makes at place `owner` to the first place, and adds it there.
static llvm::Error bring(Session &session, const ValueInfo &value, int owner,
                         llvm::function_ref<llvm::Expected<WholeTensor>()> make,
                         std::vector<WholeTensor> &tensors) {
  const StageMap &stages = session.stages();
  bool isMine = !session.isScheduled() || owner == stages.place();
  if (!isMine && stages.place() != 0)
    return llvm::Error::success();
  std::optional<RankGroup> group;
  if (session.isScheduled()) {
    std::string axis = session.program().schedule()->axis;
    llvm::Expected<RankGroup> found = session.grid().group(std::vector{axis});
    if (!found)
      return found.takeError();
    group = std::move(*found);
  }
  llvm::Expected<WholeTensor> tensor =
      isMine ? make() : receiveAtFirst(*group->communicator, group->rankAt[owner], value);
  if (!tensor)
    return tensor.takeError();
  if (!session.isScheduled() || stages.place() == 0)
    tensors.push_back(std::move(*tensor));
  else
    return sendToFirst(*group->communicator, group->rankAt[0], *tensor);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// What is gathered
//===----------------------------------------------------------------------===//

/// The mean of losses, each of which counts as much as its gradient does. May throw.
static at::Tensor averageLosses(llvm::ArrayRef<at::Tensor> losses, llvm::ArrayRef<double> seeds) {
  if (seeds.empty())
    return at::stack(losses).mean();
  at::Tensor sum = at::full_like(losses.front(), std::numeric_limits<double>::quiet_NaN());
  bool isFirst = true;
  // One without a share of the loss may be no number.
  for (auto [loss, seed] : llvm::zip_equal(losses, seeds))
    if (seed > 0)
      sum = std::exchange(isFirst, false) ? loss.mul(seed) : sum.add(loss.mul(seed));
  return sum;
}

/// The losses' mean, or the outputs one after another, of all microbatches.
static llvm::Expected<WholeTensor> join(Session &session, const ValueInfo &value) {
  std::vector<ConstTensorRef> parts = session.keptOutputs(value.fileName);
  if (parts.size() < 2) {
    llvm::Expected<ConstTensorRef> part = session.result(value.fileName);
    return part ? assemble(value, *part, session.grid()) : part.takeError();
  }
  std::vector<WholeTensor> wholes;
  for (const ConstTensorRef &part : parts) {
    llvm::Expected<WholeTensor> whole = assemble(value, part, session.grid());
    if (!whole)
      return whole.takeError();
    wholes.push_back(std::move(*whole));
  }
  WholeTensor joined;
  joined.name = value.fileName;
  llvm::Error error = guarded([&] {
    c10::InferenceMode inferenceMode;
    std::vector<at::Tensor> views;
    for (const WholeTensor &whole : wholes)
      views.push_back(view(whole));
    assign(joined, value.role == RoleKind::Loss ? averageLosses(views, session.lossSeeds())
                                                : at::cat(views, *value.batch));
  });
  if (error)
    return error;
  return joined;
}

llvm::Expected<std::vector<WholeTensor>> cleave::runtime::gatherResults(Session &session) {
  std::vector<WholeTensor> tensors;
  for (const ValueInfo &value : session.program().outcomes()) {
    std::optional<int> owner = session.stages().placeOfResult(value.fileName);
    if (!owner)
      continue;
    auto make = [&] { return join(session, value); };
    if (llvm::Error error = bring(session, value, *owner, make, tensors))
      return error;
  }
  return tensors;
}

llvm::Expected<std::vector<WholeTensor>> cleave::runtime::gatherWeights(Session &session) {
  std::vector<WholeTensor> tensors;
  for (const ValueInfo &value : session.program().weights()) {
    if (value.role == RoleKind::Constant)
      continue; // they never change: the weights file has them
    auto make = [&]() -> llvm::Expected<WholeTensor> {
      llvm::Expected<ConstTensorRef> part = session.result(value.fileName);
      return part ? assemble(value, *part, session.grid()) : part.takeError();
    };
    if (llvm::Error error =
            bring(session, value, session.stages().ownerOfWeight(value.name), make, tensors))
      return error;
  }
  return tensors;
}

llvm::Expected<std::vector<WholeTensor>> cleave::runtime::gatherOptimizerStates(Session &session) {
  std::vector<WholeTensor> tensors;
  for (const ValueInfo &value : session.program().optimizerStates()) {
    auto make = [&]() -> llvm::Expected<WholeTensor> {
      llvm::Expected<ConstTensorRef> part = session.result(value.fileName);
      return part ? assemble(value, *part, session.grid()) : part.takeError();
    };
    if (llvm::Error error =
            bring(session, value, session.stages().placeOfState(value.name), make, tensors))
      return error;
  }
  return tensors;
}
