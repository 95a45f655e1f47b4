//===- Attention.cpp - derivative of scaled dot-product attention -------------===//

#include "dialects/aten/ops/Attention.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

static LogicalResult differentiateFlash(FlashAttentionForCpuOp op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  Value q = op.getQuery(), k = op.getKey(), v = op.getValue(), mask = op.getAttnMask();
  if (b.needs(mask))
    return b.refuse(
        "with respect to `attn_mask`; compute attention from products and softmax where a "
        "bias is trained");
  auto type = [](Value value) {
    return Type(RankedTensorType::get(shapeOf(value), dtypeOf(value)));
  };
  SmallVector<Value> operands = {b.gradient(), q, k, v, op.getOutput(), op.getLogsumexp()};
  if (mask)
    operands.push_back(mask);
  SmallVector<NamedAttribute> attributes = {
      b.number("dropout_p", op.getDropoutP() ? op.getDropoutP()->convertToDouble() : 0.0),
      b.boolean("is_causal", op.getIsCausal().value_or(false))};
  if (op.getScale())
    attributes.push_back(b.number("scale", op.getScale()->convertToDouble()));
  Operation *kernel =
      b.create<FlashAttentionForCpuBackwardOp>({type(q), type(k), type(v)}, operands, attributes);
  b.to(q, [&] { return kernel->getResult(0); });
  b.to(k, [&] { return kernel->getResult(1); });
  b.to(v, [&] { return kernel->getResult(2); });
  return success();
}

void cleave::autodiff::attachAttentionRules(MLIRContext &context) {
  attach<FlashAttentionForCpuOp, differentiateFlash>(context);
}
