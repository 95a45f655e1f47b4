//===- OutputMask.cpp - ops that compute their results one by one ------------===//

#include "lib/backward/OutputMask.h"

#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Call.h"

using namespace mlir;
using namespace cleave;

static constexpr llvm::StringLiteral maskName = "output_mask";

DenseBoolArrayAttr backward::getOutputMask(Operation *op) {
  if (!isa<aten::AtenOpInterface>(op))
    return {};
  DenseBoolArrayAttr mask;
  if (auto call = dyn_cast<aten::CallOp>(op))
    mask = call.getArgs().getAs<DenseBoolArrayAttr>(maskName);
  else
    mask = op->getAttrOfType<DenseBoolArrayAttr>(maskName);
  return mask && size_t(mask.size()) == op->getNumResults() ? mask : DenseBoolArrayAttr();
}

static void setOutputMask(Operation *op, DenseBoolArrayAttr mask) {
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call) {
    op->setAttr(maskName, mask);
    return;
  }
  NamedAttrList arguments(call.getArgs());
  arguments.set(maskName, mask);
  call.setArgsAttr(arguments.getDictionary(op->getContext()));
}

Operation *backward::cloneInPart(OpBuilder &b, Operation *op, IRMapping &mapping,
                                 llvm::function_ref<bool(Value)> wanted) {
  // Results that are not wanted may be mapped to something else, which a clone with `mapping`
  // itself would overwrite.
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, mapping.lookup(operand));
  Operation *clone = op->clone(operands);
  DenseBoolArrayAttr mask = getOutputMask(op);
  SmallVector<bool> part;
  for (auto [before, after] : llvm::zip_equal(op->getResults(), clone->getResults())) {
    bool isWanted = wanted(before);
    if (isWanted)
      mapping.map(before, after);
    else if (mask)
      after.setType(b.getNoneType());
    part.push_back(isWanted && mask && mask[part.size()]);
  }
  if (mask)
    setOutputMask(clone, b.getDenseBoolArrayAttr(part));
  return b.insert(clone);
}
