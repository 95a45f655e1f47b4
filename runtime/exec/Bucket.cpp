//===- Bucket.cpp - gradients that are reduced together ----------------------===//

#include "runtime/exec/Bucket.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Instruction.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/ranks/RankGrid.h"

#include <chrono>
#include <stdexcept>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

llvm::Expected<std::unique_ptr<Bucket>> Bucket::create(train::BucketOp op, RankGrid &ranks,
                                                       const Device &device,
                                                       const SessionOptions &options,
                                                       ReplicaSums &replicaSums) {
  const int64_t microbatches = options.microbatches;
  std::unique_ptr<Bucket> bucket(new Bucket(options, replicaSums));
  bucket->name = op.getSymName().str();
  bucket->required = microbatches;
  if (op.getAccumulations() && int64_t(*op.getAccumulations()) != microbatches)
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "bucket '" + bucket->name + "' requires " + llvm::Twine(*op.getAccumulations()) +
            " accumulations, but a step has " + llvm::Twine(microbatches) +
            " microbatches; run it with that many, or rebuild the buckets with another "
            "require-accumulations");
  for (StringAttr member : op.getNames().getAsRange<StringAttr>())
    bucket->names.push_back(member.str());
  bucket->flat = device.allocate(toTensorType(op.getBucketType().getFlat()));
  int64_t offset = 0, parts = op.countParts();
  bool isScattered = bool(op.getScatter());
  if (isScattered)
    bucket->part = device.allocate(toTensorType(RankedTensorType::get(
        {bucket->flat.numel() / parts}, op.getBucketType().getFlat().getElementType())));
  for (size_t i = 0; i < bucket->names.size(); ++i) {
    TensorType type = toTensorType(op.getMemberType(i));
    int64_t size = op.getMemberType(i).getNumElements();
    bucket->types.push_back(toScalarType(type.dtype));
    if (isScattered) {
      // Part by part in memory; in the view the parts precede the dimension that they
      // divide, so that a gradient only needs that dimension split to be of the view's shape.
      llvm::SmallVector<int64_t, 6> shape(toTensorType(op.getReducedType(i)).shape);
      bucket->partViews.push_back(bucket->part.narrow(0, offset, size / parts)
                                      .view(c10::IntArrayRef(shape.data(), shape.size())));
      shape.insert(shape.begin(), parts);
      bucket->views.push_back(bucket->flat.view({parts, -1})
                                  .narrow(1, offset, size / parts)
                                  .view(c10::IntArrayRef(shape.data(), shape.size()))
                                  .movedim(0, op.getScatteredDim(i)));
      offset += size / parts;
      continue;
    }
    bucket->views.push_back(bucket->flat.narrow(0, offset, size)
                                .view(c10::IntArrayRef(type.shape.data(), type.shape.size())));
    offset += size;
  }
  bucket->counts.resize(bucket->names.size());
  auto join = [&](std::optional<ArrayAttr> list, std::optional<RankGroup> &result,
                  llvm::StringRef lane = {}) -> llvm::Error {
    if (!list || list->empty())
      return llvm::Error::success();
    std::vector<std::string> axes;
    for (StringAttr axis : list->getAsRange<StringAttr>())
      axes.push_back(axis.str());
    llvm::Expected<RankGroup> group = ranks.group(axes, lane);
    if (!group)
      return group.takeError();
    if (group->size() > 1)
      result = std::move(*group);
    return llvm::Error::success();
  };
  if (llvm::Error error = join(op.getScatter(), bucket->scatterGroup))
    return error;
  // Sums over replicas start when shards have arrived, which every rank sees at another moment.
  bucket->sumsWhenReady = bucket->scatterGroup && !device.hasStreams();
  if (llvm::Error error =
          join(op.getAxes(), bucket->group, bucket->sumsWhenReady ? "replica sums" : ""))
    return error;
  return bucket;
}

std::string Bucket::describe() const {
  std::string text = "bucket '" + name + "' (\"" + names.front() + "\"";
  if (names.size() > 1)
    text += " and " + std::to_string(names.size() - 1) + " more";
  return text + ")";
}

std::optional<size_t> Bucket::findMember(llvm::StringRef member) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == member)
      return i;
  return std::nullopt;
}

void Bucket::start(llvm::function_ref<PendingOr()> operation) {
  startNs = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  PendingOr started = operation();
  if (!started)
    throw CommunicationFailure{started.takeError()};
  reduction = std::move(*started);
}

/// Waits for the operation in flight, whose result goes to `into`.
void Bucket::finish(at::Tensor &into) {
  Pending ending = std::move(*reduction);
  reduction.reset();
  llvm::Expected<Pending::Tensors> sum = ending.wait();
  if (!sum)
    throw CommunicationFailure{sum.takeError()};
  if (options.onReduction && ending.completedNs())
    options.onReduction({name, startNs, *ending.completedNs()});
  // Backends reduce in place; where they lack the type, the sum is a tensor of its own.
  if (sum->front().data_ptr() != into.data_ptr())
    into.copy_(sum->front().view(into.sizes()));
}

void Bucket::finishReduction() {
  if (!reduction)
    return;
  if (isHybrid() && sumsWhenReady) {
    replicaSums.startThrough(*this);
    replicaSums.startReady();
  } else if (isHybrid()) {
    startReplicaSum();
  }
  finish(result());
}

void Bucket::startReplicaSum() {
  finish(part);
  start([&] { return startAllReduce(*group, {part}, {ReductionKind::Sum}, describe()); });
}

void ReplicaSums::startFirst() {
  // Out of the list first: where a rank is lost, the step ends here.
  Bucket *bucket = waiting.front();
  waiting.pop_front();
  bucket->startReplicaSum();
}

void ReplicaSums::startReady() {
  while (!waiting.empty() && waiting.front()->reduction->isDone())
    startFirst();
}

void ReplicaSums::startThrough(const Bucket &bucket) {
  while (llvm::is_contained(waiting, &bucket))
    startFirst();
}

void Bucket::zero() {
  finishReduction();
  llvm::fill(counts, 0);
  done = 0;
}

Bucket::Target Bucket::beginContribution(size_t member) {
  if (done == required)
    throw std::runtime_error(
        describe() + " has all " + std::to_string(required) +
        " microbatches of the step and is reduced; one more contribution, of \"" + names[member] +
        "\", needs a new step");
  replicaSums.startReady();
  return {views[member], counts[member]++ == 0};
}

void Bucket::contribute(size_t member, const at::Tensor &gradient) {
  Target target = beginContribution(member);
  // The view's handle is not const; the tensor behind it is what changes.
  at::Tensor view = target.view;
  if (!partViews.empty()) {
    at::Tensor inParts = gradient.reshape(view.sizes());
    target.isFirst ? view.copy_(inParts) : view.add_(inParts);
    return;
  }
  if (target.isFirst)
    view.copy_(gradient);
  else
    view.add_(gradient);
}

void Bucket::microbatchDone() {
  if (++done < required)
    return;
  for (size_t i = 0; i < names.size(); ++i)
    if (counts[i] == 0)
      throw std::runtime_error(
          describe() + " is about to be reduced, but has no contribution to \"" + names[i] + "\"");
  // One part is the whole.
  if (!partViews.empty() && !scatterGroup)
    part.copy_(flat);
  if (!scatterGroup && !group)
    return;
  start([&] {
    return scatterGroup
               ? startReduceScatter(*scatterGroup, {flat}, {ReductionKind::Sum}, 0, describe())
               : startAllReduce(*group, {result()}, {ReductionKind::Sum}, describe());
  });
  if (isHybrid() && sumsWhenReady)
    replicaSums.add(*this);
}

std::vector<at::Tensor> Bucket::wait() {
  if (done != required)
    throw std::runtime_error(describe() + " has " + std::to_string(done) + " of the step's " +
                             std::to_string(required) + " microbatches");
  finishReduction();
  std::vector<at::Tensor> gradients;
  const std::vector<at::Tensor> &reduced = partViews.empty() ? views : partViews;
  for (size_t i = 0; i < reduced.size(); ++i)
    gradients.push_back(reduced[i].to(types[i]));
  return gradients;
}

at::Tensor Bucket::peek(size_t member) {
  if (counts[member] == 0 || (!partViews.empty() && done < required))
    return {};
  finishReduction();
  if (!partViews.empty())
    return partViews[member].to(types[member]);
  return views[member].to(types[member]);
}
