//===- Attention.cpp - scaled dot-product attention -----------------------===//

#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Attention.cpp.inc"

void cleave::aten::addAttentionOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Attention.cpp.inc"
      >(dialect);
}

/// Constraints 1 to 3, which forward and backward share.
static LogicalResult verifyOperands(Operation *op, Value query, Value key, Value value, Value mask,
                                    double dropout) {
  // 1.
  if (failed(expectFloating(op, "query", query)) || failed(expectRank(op, "query", query, 4)) ||
      failed(expectRank(op, "key", key, 4)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key);
  if (k[0] != q[0] || k[1] == 0 || q[1] % k[1] != 0 || k[3] != q[3])
    return op->emitOpError("cannot attend with `query` to `key`, found ")
           << query.getType() << " and " << key.getType();
  if (failed(expectShape(op, "value", value, k)) ||
      failed(expectSameDType(op, "key", key, "query", query)) ||
      failed(expectSameDType(op, "value", value, "query", query)))
    return failure();
  // 2.
  if (dropout != 0)
    return op->emitOpError("expects `dropout_p` of 0, found ") << dropout;
  // 3.
  if (mask && !broadcastsTo(shapeOf(mask), {q[0], q[1], q[2], k[2]}))
    return op->emitOpError("expects `attn_mask` to broadcast to [")
           << ArrayRef<int64_t>{q[0], q[1], q[2], k[2]} << "], found " << mask.getType();
  return success();
}

/// The dtype in which the kernel keeps `logsumexp`.
static Type accumulationType(Value query) {
  Type dtype = dtypeOf(query);
  return dtype.isF64() ? dtype : Type(Float32Type::get(dtype.getContext()));
}

LogicalResult FlashAttentionForCpuOp::verify() {
  // 1. to 3.
  double dropout = getDropoutP() ? getDropoutP()->convertToDouble() : 0;
  if (failed(verifyOperands(*this, getQuery(), getKey(), getValue(), getAttnMask(), dropout)))
    return failure();
  // 4.
  if (failed(expectResultLike(*this, 0, getQuery())))
    return failure();
  // 5.
  return expectResult(*this, 1, shapeOf(getQuery()).drop_back(), accumulationType(getQuery()));
}

LogicalResult FlashAttentionForCpuBackwardOp::verify() {
  // 1. to 3.
  if (failed(verifyOperands(*this, getQuery(), getKey(), getValue(), getAttnMask(),
                            getDropoutP().convertToDouble())))
    return failure();
  // 4.
  if (failed(expectShape(*this, "grad_out", getGradOut(), shapeOf(getQuery()))) ||
      failed(expectSameDType(*this, "grad_out", getGradOut(), "query", getQuery())) ||
      failed(expectShape(*this, "out", getOut(), shapeOf(getQuery()))) ||
      failed(expectSameDType(*this, "out", getOut(), "query", getQuery())))
    return failure();
  // 5.
  if (failed(expectShape(*this, "logsumexp", getLogsumexp(), shapeOf(getQuery()).drop_back())))
    return failure();
  if (dtypeOf(getLogsumexp()) != accumulationType(getQuery()))
    return emitOpError("expects `logsumexp` of dtype ")
           << accumulationType(getQuery()) << ", found " << getLogsumexp().getType();
  // 6.
  if (failed(expectResultLike(*this, 0, getQuery())) ||
      failed(expectResultLike(*this, 1, getKey())))
    return failure();
  return expectResultLike(*this, 2, getValue());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static const char *causalReason = "the causal mask depends on positions in the whole sequence";

void FlashAttentionForCpuOp::describeSharding(RuleBuilder &rule) {
  // Heads are groups (g) of heads that share a key (r). Queries attend independently of each other.
  static const char *keys = "es: each query attends to all of every key";
  static const sharding::RuleText full("b(gr)le, bgse, bgse, ~b(gr)ls -> b(gr)le, b(gr)l", {keys});
  rule.text(full);
  if (getIsCausal().value_or(false))
    rule.makeWholeLetter('l', causalReason);
}

void FlashAttentionForCpuBackwardOp::describeSharding(RuleBuilder &rule) {
  // Given `out` and `logsumexp` of all keys, a part of the keys gives its own gradients, and a term
  // of the gradient of the queries.
  static const sharding::RuleText text(
      "b(gr)le, b(gr)le, bgse, bgse, b(gr)le, b(gr)l, ~b(gr)ls -> b(gr)le, bgse, bgse",
      {"e: a score is a product over all of it"});
  rule.text(text);
  if (getIsCausal()) {
    rule.makeWholeLetter('l', causalReason);
    rule.makeWholeLetter('s', causalReason);
  }
}
