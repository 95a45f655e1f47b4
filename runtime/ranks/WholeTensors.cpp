//===- WholeTensors.cpp - between files' tensors and ranks' parts ------------===//

#include "runtime/ranks/WholeTensors.h"
#include "runtime/aten/Facade.h"
#include "runtime/comm/Collectives.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

using namespace cleave::runtime;
using Kind = AxisPlacement::Kind;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

std::vector<std::string> cleave::runtime::shardingAxes(const ValueInfo &value, int64_t dim) {
  std::vector<const AxisPlacement *> shards;
  for (const AxisPlacement &placement : value.placements)
    if (placement.kind == Kind::Shard && placement.dim == dim)
      shards.push_back(&placement);
  llvm::sort(shards, [](auto *a, auto *b) { return a->order < b->order; });
  std::vector<std::string> axes;
  for (const AxisPlacement *shard : shards)
    axes.push_back(shard->axis);
  return axes;
}

TensorType cleave::runtime::wholeType(const ValueInfo &value, const RankGrid &grid) {
  TensorType whole = value.type;
  if (value.wholeShape) {
    whole.shape = *value.wholeShape;
    return whole;
  }
  for (const AxisPlacement &placement : value.placements)
    if (placement.kind == Kind::Shard)
      whole.shape[placement.dim] *= grid.size(placement.axis);
  return whole;
}

std::vector<ValueInfo> cleave::runtime::wholeValues(llvm::ArrayRef<ValueInfo> values,
                                                    const RankGrid &grid) {
  std::vector<ValueInfo> wholes(values);
  for (ValueInfo &value : wholes) {
    value.type = wholeType(value, grid);
    value.wholeShape.reset();
    value.placements.clear();
  }
  return wholes;
}

bool cleave::runtime::isWholeOf(const ValueInfo &value, const TensorType &whole,
                                const RankGrid &grid) {
  if (whole.dtype != value.type.dtype || whole.shape.size() != value.type.shape.size())
    return false;
  for (size_t dim = 0; dim < whole.shape.size(); ++dim)
    if (grid.part(whole.shape[dim], shardingAxes(value, dim)).size != value.type.shape[dim])
      return false;
  return true;
}

std::string cleave::runtime::describeWhole(const ValueInfo &value, const RankGrid &grid) {
  TensorType whole = wholeType(value, grid);
  if (whole == value.type)
    return whole.str();
  std::vector<std::string> counts;
  for (size_t dim = 0; dim < whole.shape.size(); ++dim) {
    int64_t count = 1;
    for (const std::string &axis : shardingAxes(value, dim))
      count *= grid.size(axis);
    counts.push_back(std::to_string(count));
  }
  return whole.str() + ", " + llvm::join(counts, " x ") + " parts of " + value.type.str();
}

//===----------------------------------------------------------------------===//
// From the whole to a part
//===----------------------------------------------------------------------===//

llvm::Error cleave::runtime::checkReadable(const ValueInfo &value) {
  for (const AxisPlacement &placement : value.placements) {
    bool isVarying = placement.kind == Kind::Varying;
    if (isVarying || (placement.kind == Kind::Partial && placement.reduction != "sum"))
      return llvm::createStringError(
          llvm::formatv("'{0}' is {1} along \"{2}\": not a shard of a whole tensor", value.fileName,
                        isVarying ? "V" : "P(" + placement.reduction + ")", placement.axis)
              .str());
  }
  return llvm::Error::success();
}

Box cleave::runtime::boxOf(const ValueInfo &value, llvm::ArrayRef<int64_t> whole,
                           const RankGrid &grid) {
  return boxOf(value, whole, grid, grid.rank());
}

Box cleave::runtime::boxOf(const ValueInfo &value, llvm::ArrayRef<int64_t> whole,
                           const RankGrid &grid, int rank) {
  Box box;
  for (auto [dim, size] : llvm::enumerate(whole)) {
    Part part = grid.part(size, shardingAxes(value, dim), rank);
    box.push_back({part.begin, part.size});
  }
  return box;
}

bool cleave::runtime::isZeroHere(const ValueInfo &value, const RankGrid &grid) {
  return llvm::any_of(value.placements, [&](const AxisPlacement &placement) {
    return placement.kind == Kind::Partial && grid.coordinate(placement.axis) != 0;
  });
}

void cleave::runtime::readPart(const ValueInfo &value, const ConstTensorRef &whole,
                               const RankGrid &grid, const TensorRef &part) {
  if (part.type.numElements() == 0)
    return;
  if (isZeroHere(value, grid)) {
    std::memset(part.data, 0, part.bytes().size());
    return;
  }
  copyBox(reinterpret_cast<const uint8_t *>(whole.data), whole.type.shape,
          boxOf(value, whole.type.shape, grid), byteSize(part.type.dtype),
          reinterpret_cast<uint8_t *>(part.data));
}

//===----------------------------------------------------------------------===//
// From parts to the whole
//===----------------------------------------------------------------------===//

static ReductionKind parseReduction(llvm::StringRef name) {
  for (ReductionKind kind :
       {ReductionKind::Average, ReductionKind::Max, ReductionKind::Min, ReductionKind::Product})
    if (reductionName(kind) == name)
      return kind;
  return ReductionKind::Sum;
}

static llvm::Expected<at::Tensor> waitForOne(PendingOr pending) {
  if (!pending)
    return pending.takeError();
  llvm::Expected<Pending::Tensors> results = pending->wait();
  if (!results)
    return results.takeError();
  return results->front();
}

/// Size of a dimension of which each rank of the group has a part.
static llvm::Expected<int64_t> sumOfSizes(const RankGroup &group, int64_t mine,
                                          llvm::StringRef what) {
  auto sizes = group.communicator->allGatherBytes(std::to_string(mine), what);
  if (!sizes)
    return sizes.takeError();
  int64_t sum = 0;
  for (const std::string &text : *sizes) {
    int64_t size = 0;
    llvm::StringRef(text).getAsInteger(10, size);
    sum += size;
  }
  return sum;
}

static llvm::Expected<at::Tensor> reduceAndJoin(const ValueInfo &value, at::Tensor tensor,
                                                RankGrid &grid) {
  for (const AxisPlacement &placement : value.placements) {
    if (placement.kind == Kind::Varying && grid.size(placement.axis) > 1)
      return llvm::createStringError(
          llvm::formatv("'{0}' is V along \"{1}\": its shards cannot be assembled", value.fileName,
                        placement.axis)
              .str());
    if (placement.kind != Kind::Partial)
      continue;
    llvm::Expected<RankGroup> group = grid.group(placement.axis);
    if (!group)
      return group.takeError();
    llvm::Expected<at::Tensor> reduced =
        waitForOne(startAllReduce(*group, {tensor.clone(at::MemoryFormat::Contiguous)},
                                  parseReduction(placement.reduction), value.fileName));
    if (!reduced)
      return reduced.takeError();
    tensor = *reduced;
  }
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    std::vector<std::string> axes = shardingAxes(value, dim);
    if (axes.empty())
      continue;
    llvm::Expected<RankGroup> group = grid.group(axes);
    if (!group)
      return group.takeError();
    llvm::Expected<int64_t> whole = sumOfSizes(*group, tensor.size(dim), value.fileName);
    if (!whole)
      return whole.takeError();
    llvm::Expected<at::Tensor> joined =
        waitForOne(startAllGather(*group, {tensor}, dim, {*whole}, value.fileName));
    if (!joined)
      return joined.takeError();
    tensor = *joined;
  }
  return tensor;
}

llvm::Expected<WholeTensor> cleave::runtime::assemble(const ValueInfo &value,
                                                      const ConstTensorRef &part, RankGrid &grid) {
  WholeTensor whole;
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    // Only read from.
    at::Tensor mine = at::from_blob(const_cast<char *>(part.data), part.type.shape,
                                    toScalarType(part.type.dtype));
    llvm::Expected<at::Tensor> tensor = reduceAndJoin(value, mine, grid);
    if (!tensor) {
      failure = tensor.takeError();
      return;
    }
    at::Tensor flat = tensor->contiguous();
    TensorRef ref = refTo(flat);
    whole.name = value.fileName;
    whole.type = ref.type;
    whole.bytes.assign(ref.bytes().begin(), ref.bytes().end());
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return whole;
}
