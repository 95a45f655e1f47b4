//===- Storage.cpp - which values share memory --------------------------------===//

#include "lib/memory/Storage.h"
#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "dialects/train/Train.h"
#include "lib/memory/MemoryPlan.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::memory;

std::optional<unsigned> cleave::memory::getSharedOperand(Operation *op, unsigned index) {
  if (Value source = getViewSource(op->getResult(index)))
    return llvm::find(op->getOperands(), source).getIndex();
  // By its schema the operator is not a view, but its kernel returns one.
  if (isa<aten::UnsafeViewOp, dist::WaitOp>(op))
    return 0;
  // Views of the bucket, where nothing is converted.
  if (auto wait = dyn_cast<train::WaitBucketOp>(op)) {
    Type element = wait.getBucket().getType().getFlat().getElementType();
    bool isView =
        cast<RankedTensorType>(op->getResult(index).getType()).getElementType() == element;
    return isView ? std::optional<unsigned>(0) : std::nullopt;
  }
  // A bucket is linear: the new value has the old one's memory.
  if (isa<train::BucketType>(op->getResult(index).getType()))
    for (OpOperand &operand : op->getOpOperands())
      if (isa<train::BucketType>(operand.get().getType()))
        return operand.getOperandNumber();
  return std::nullopt;
}

std::optional<unsigned> cleave::memory::getOverwrittenOperand(Operation *op, unsigned index) {
  if (auto accumulate = dyn_cast<train::AccumulateOp>(op))
    return accumulate.getAccumulatorMutable().getOperandNumber();
  if (auto step = dyn_cast<train::OptimizerStepOpInterface>(op))
    return step.getTiedOperand(index);
  // An all-reduce of one value overwrites its operand; several are sent in a separate buffer.
  if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
    return reduce.getInputs().size() == 1 ? std::optional<unsigned>(0) : std::nullopt;
  if (isa<dist::FakeReduceOp>(op))
    return 0;
  return std::nullopt;
}

/// The operand whose memory a result has; null if it has its own.
Value Storage::sourceOf(OpResult result) const {
  Operation *op = result.getOwner();
  auto accumulate = dyn_cast<train::AccumulateOp>(op);
  bool isLowered = op->hasAttr(exec::kMemoryAttrName);
  if (isLowered && !(accumulate && emptyAccumulators)) {
    exec::ResultMemory memory = exec::getResultMemory(result);
    return memory.kind == exec::ResultMemory::Same ? op->getOperand(memory.operand) : Value();
  }
  if (std::optional<unsigned> operand = getSharedOperand(op, result.getResultNumber()))
    return op->getOperand(*operand);
  if (accumulate && emptyAccumulators) {
    // The first gradient becomes the accumulator, unless it is narrower, not ours or not flat,
    // which a view may not be. In a lowered function it is copied.
    Value gradient = accumulate.getGradient();
    bool isOwn = of(gradient) == gradient && !isa<BlockArgument>(gradient) &&
                 gradient.hasOneUse() && gradient.getType() == result.getType();
    return isOwn && !isLowered ? gradient : Value();
  }
  if (std::optional<unsigned> operand = getOverwrittenOperand(op, result.getResultNumber()))
    return op->getOperand(*operand);
  return {};
}

void Storage::visit(Operation *op) {
  for (OpResult result : op->getResults())
    if (Value source = sourceOf(result))
      shared[result] = of(source);
}
