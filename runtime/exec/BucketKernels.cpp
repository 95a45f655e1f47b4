//===- BucketKernels.cpp - contributions to buckets, and their reduction -----===//
//
// A bucket's value in a frame is its buffer; None is a bucket at the beginning of a step. The
// bucket itself is known when the op is bound.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/Bucket.h"
#include "runtime/exec/Kernels.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

using namespace mlir;
using namespace cleave::runtime;
namespace train = cleave::train;

static llvm::Expected<Bucket *> findBucket(Binder &binder, Value value) {
  auto type = cast<train::BucketType>(value.getType());
  BucketSet *buckets = binder.services().buckets;
  auto found = buckets->find(type.getSymbol().getValue());
  if (found == buckets->end())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "there is no bucket '" + type.getSymbol().getValue() + "'");
  return found->second.get();
}

namespace {
class Contribute : public Instruction {
public:
  Operand gradient, value;
  Destination result;
  Bucket *bucket = nullptr;
  size_t member = 0;

  void execute(Frame &frame) override {
    if (value.read(frame).isNone())
      bucket->zero();
    bucket->contribute(member, gradient.tensor(frame));
    result.write(frame, bucket->buffer());
  }
};

class ContributeMm : public Instruction {
public:
  Operand self, mat2, value;
  Destination result;
  Bucket *bucket = nullptr;
  size_t member = 0;
  bool transposed = false;

  void execute(Frame &frame) override {
    if (value.read(frame).isNone())
      bucket->zero();
    Bucket::Target target = bucket->beginContribution(member);
    at::Tensor out = transposed ? target.view.t() : target.view;
    if (target.isFirst)
      at::mm_out(out, self.tensor(frame), mat2.tensor(frame));
    else
      at::addmm_out(out, out, self.tensor(frame), mat2.tensor(frame));
    result.write(frame, bucket->buffer());
  }
};

class ReduceBucket : public Instruction {
public:
  Operand value;
  Destination result;
  Bucket *bucket = nullptr;

  void execute(Frame &frame) override {
    if (value.read(frame).isNone())
      bucket->zero();
    bucket->microbatchDone();
    result.write(frame, bucket->buffer());
  }
};

class WaitBucket : public Instruction {
public:
  Operand value;
  std::vector<Destination> results;
  Bucket *bucket = nullptr;

  void execute(Frame &frame) override {
    (void)value.read(frame);
    std::vector<at::Tensor> gradients = bucket->wait();
    for (size_t i = 0; i < gradients.size(); ++i)
      results[i].write(frame, std::move(gradients[i]));
  }
};
} // namespace

BindResult cleave::runtime::bindContribute(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::ContributeOp>(ops.front());
  llvm::Expected<Bucket *> bucket = findBucket(binder, op.getBucket());
  if (!bucket)
    return bucket.takeError();
  auto instruction = std::make_unique<Contribute>();
  instruction->bucket = *bucket;
  // The verifier has seen that there is such a member.
  instruction->member = *(*bucket)->findMember(op.getMember());
  instruction->gradient = binder.use(op.getGradient());
  instruction->value = binder.use(op.getBucket());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

BindResult cleave::runtime::bindContributeMm(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::ContributeMmOp>(ops.front());
  llvm::Expected<Bucket *> bucket = findBucket(binder, op.getBucket());
  if (!bucket)
    return bucket.takeError();
  auto instruction = std::make_unique<ContributeMm>();
  instruction->bucket = *bucket;
  instruction->member = *(*bucket)->findMember(op.getMember());
  instruction->transposed = op.getTransposed();
  instruction->self = binder.use(op.getSelf());
  instruction->mat2 = binder.use(op.getMat2());
  instruction->value = binder.use(op.getBucket());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

BindResult cleave::runtime::bindReduceBucket(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::ReduceBucketOp>(ops.front());
  llvm::Expected<Bucket *> bucket = findBucket(binder, op.getBucket());
  if (!bucket)
    return bucket.takeError();
  auto instruction = std::make_unique<ReduceBucket>();
  instruction->bucket = *bucket;
  instruction->value = binder.use(op.getBucket());
  instruction->result = binder.define(op.getResult());
  return instruction;
}

BindResult cleave::runtime::bindWaitBucket(Binder &binder, ArrayRef<Operation *> ops) {
  auto op = cast<train::WaitBucketOp>(ops.front());
  llvm::Expected<Bucket *> bucket = findBucket(binder, op.getBucket());
  if (!bucket)
    return bucket.takeError();
  auto instruction = std::make_unique<WaitBucket>();
  instruction->bucket = *bucket;
  instruction->value = binder.use(op.getBucket());
  for (Value gradient : op.getGradients())
    instruction->results.push_back(binder.define(gradient));
  return instruction;
}
