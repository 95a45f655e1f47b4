//===- MemoryPlan.cpp - how much memory a function will use ------------------===//

#include "runtime/program/MemoryPlan.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;
namespace dist = cleave::dist;
namespace train = cleave::train;

namespace {
/// Which memory a value lives in, named by the value that it was allocated for.
class Storage {
public:
  explicit Storage(bool emptyAccumulators) : emptyAccumulators(emptyAccumulators) {}

  Value of(Value value) const {
    auto found = shared.find(value);
    return found == shared.end() ? value : found->second;
  }

  /// Records what `op`'s results share.
  void visit(Operation *op) {
    for (OpResult result : op->getResults())
      if (Value source = sourceOf(op, result.getResultNumber()))
        shared[result] = of(source);
  }

private:
  /// The operand whose memory result `index` has; null where it has its own.
  Value sourceOf(Operation *op, unsigned index) const {
    if (auto call = dyn_cast<aten::AtenOpInterface>(op))
      return call.getViewSource(index);
    if (auto accumulate = dyn_cast<train::AccumulateOp>(op)) {
      if (!emptyAccumulators)
        return accumulate.getAccumulator();
      // The first gradient becomes the accumulator, unless it is somebody else's memory or not
      // flat, which a view may not be.
      Value gradient = accumulate.getGradient();
      bool isOwn =
          of(gradient) == gradient && !isa<BlockArgument>(gradient) && gradient.hasOneUse();
      return isOwn ? gradient : Value();
    }
    if (isa<train::AdamWOp, train::SGDOp>(op)) {
      // Results are tied to the first operand and to the states behind the gradient.
      unsigned operand = index == 0 ? 0 : index + 1;
      return op->getOperand(operand);
    }
    if (auto reduce = dyn_cast<dist::AllReduceOp>(op))
      return reduce.getInputs()[index];
    return {};
  }

  bool emptyAccumulators;
  llvm::DenseMap<Value, Value> shared;
};
} // namespace

static int64_t bytesOf(Value value) {
  return isa<RankedTensorType>(value.getType()) ? toTensorType(value.getType()).numBytes() : 0;
}

MemoryPlan cleave::runtime::planMemory(func::FuncOp function, bool emptyAccumulators) {
  Storage storage(emptyAccumulators);
  llvm::DenseMap<Value, Operation *> lastUse;
  for (Operation &op : function.front()) {
    storage.visit(&op);
    for (Value operand : op.getOperands())
      lastUse[storage.of(operand)] = &op;
  }

  MemoryPlan plan;
  int64_t live = 0;
  llvm::DenseSet<Value> freed;
  Operation *terminator = function.front().getTerminator();
  for (Operation &op : function.front().without_terminator()) {
    int64_t unused = 0;
    for (Value result : op.getResults()) {
      if (storage.of(result) != result)
        continue;
      live += bytesOf(result);
      if (!lastUse.contains(result))
        unused += bytesOf(result);
    }
    if (live > plan.peakBytes || !plan.peakOp) {
      plan.peakBytes = live;
      plan.peakOp = &op;
    }
    live -= unused;
    for (Value operand : op.getOperands()) {
      Value root = storage.of(operand);
      if (!isa<BlockArgument>(root) && lastUse.lookup(root) == &op && freed.insert(root).second)
        live -= bytesOf(root);
    }
  }
  llvm::DenseSet<Value> counted;
  for (Value result : terminator->getOperands())
    if (Value root = storage.of(result); !isa<BlockArgument>(root) && counted.insert(root).second)
      plan.resultBytes += bytesOf(root);
  return plan;
}
