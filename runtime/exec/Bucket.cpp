//===- Bucket.cpp - gradients that are reduced together ----------------------===//

#include "runtime/exec/Bucket.h"
#include "runtime/exec/Instruction.h"
#include "runtime/exec/RankGrid.h"
#include "runtime/program/ProgramImpl.h"

#include <stdexcept>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

llvm::Expected<std::unique_ptr<Bucket>> Bucket::create(train::BucketOp op, RankGrid &ranks,
                                                       int64_t microbatches) {
  std::unique_ptr<Bucket> bucket(new Bucket());
  bucket->name = op.getSymName().str();
  bucket->required = microbatches;
  if (op.getAccumulations() && int64_t(*op.getAccumulations()) != microbatches)
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "bucket '" + bucket->name + "' requires " + llvm::Twine(*op.getAccumulations()) +
            " accumulations, but a step has " + llvm::Twine(microbatches) +
            " microbatches; run it with as many, or make the buckets with another "
            "require-accumulations");
  for (StringAttr member : op.getNames().getAsRange<StringAttr>())
    bucket->names.push_back(member.str());
  bucket->flat = allocate(toTensorType(op.getBucketType().getFlat()));
  int64_t offset = 0;
  for (size_t i = 0; i < bucket->names.size(); ++i) {
    TensorType type = toTensorType(op.getMemberType(i));
    int64_t size = op.getMemberType(i).getNumElements();
    bucket->types.push_back(toScalarType(type.dtype));
    bucket->views.push_back(bucket->flat.narrow(0, offset, size)
                                .view(c10::IntArrayRef(type.shape.data(), type.shape.size())));
    offset += size;
  }
  bucket->counts.resize(bucket->names.size());
  if (op.getAxes()) {
    std::vector<std::string> axes;
    for (StringAttr axis : op.getAxes()->getAsRange<StringAttr>())
      axes.push_back(axis.str());
    llvm::Expected<RankGroup> group = ranks.group(axes);
    if (!group)
      return group.takeError();
    if (group->size() > 1)
      bucket->group = std::move(*group);
  }
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

void Bucket::finishReduction() {
  if (!reduction)
    return;
  Pending ending = std::move(*reduction);
  reduction.reset();
  llvm::Expected<Pending::Tensors> sum = ending.wait();
  if (!sum)
    throw CommunicationFailure{sum.takeError()};
  // Backends reduce in place; where they lack the type, the sum is a tensor of its own.
  if (sum->front().data_ptr() != flat.data_ptr())
    flat.copy_(sum->front());
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
  return {views[member], counts[member]++ == 0};
}

void Bucket::contribute(size_t member, const at::Tensor &gradient) {
  Target target = beginContribution(member);
  // The view's handle is not const; the tensor behind it is what changes.
  at::Tensor view = target.view;
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
      throw std::runtime_error(describe() + " is to be reduced, but nothing contributed to \"" +
                               names[i] + "\"");
  if (!group)
    return;
  PendingOr started = startAllReduce(*group, {flat}, {Reduction::Sum}, describe());
  if (!started)
    throw CommunicationFailure{started.takeError()};
  reduction = std::move(*started);
}

std::vector<at::Tensor> Bucket::wait() {
  if (done != required)
    throw std::runtime_error(describe() + " has " + std::to_string(done) + " of the step's " +
                             std::to_string(required) + " microbatches");
  finishReduction();
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < views.size(); ++i)
    gradients.push_back(views[i].to(types[i]));
  return gradients;
}

at::Tensor Bucket::peek(size_t member) {
  if (counts[member] == 0)
    return {};
  finishReduction();
  return views[member].to(types[member]);
}
