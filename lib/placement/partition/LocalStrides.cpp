//===- LocalStrides.cpp - whether a local value can be viewed ----------------===//

#include "lib/placement/partition/LocalStrides.h"

#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;

/// Whether the strides of `value` depend on what a communication gave. Known ones may, too: what
/// was gathered is contiguous, whatever the whole value is on one device.
bool LocalStrides::comesFromCommunication(Value value) {
  // Straight-line code: walk up without recursion through what is not known yet.
  SmallVector<Value> stack = {value};
  while (!stack.empty()) {
    Value top = stack.back();
    Operation *op = top.getDefiningOp();
    if (communicated.contains(top)) {
      stack.pop_back();
      continue;
    }
    bool isReceived = op && aten::StrideInference::isReceived(op);
    if (!op || isReceived || aten::StrideInference::isAlwaysContiguous(op)) {
      communicated[top] = isReceived;
      stack.pop_back();
      continue;
    }
    if (isa<dist::DistDialect>(op->getDialect()) && !inference.get(top)) {
      communicated[top] = true;
      stack.pop_back();
      continue;
    }
    size_t before = stack.size();
    for (Value operand : op->getOperands())
      if (!communicated.contains(operand))
        stack.push_back(operand);
    if (stack.size() != before)
      continue;
    communicated[top] =
        llvm::any_of(op->getOperands(), [&](Value operand) { return communicated[operand]; });
    stack.pop_back();
  }
  return communicated[value];
}

bool LocalStrides::needsCopy(Value value, ArrayRef<int64_t> shape) {
  if (inference.isViewable(value, shape))
    return false;
  // Where nothing is known and nothing was communicated, strides are like those of one device.
  return inference.get(value).has_value() || comesFromCommunication(value);
}

bool LocalStrides::liesAs(Value value, const std::optional<aten::Strides> &global) {
  std::optional<aten::Strides> local = inference.get(value);
  if (!local || !global)
    return !local && !global && !comesFromCommunication(value);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  for (auto [size, a, b] : llvm::zip_equal(shape, *local, *global))
    if (size != 1 && a != b)
      return false;
  return true;
}
