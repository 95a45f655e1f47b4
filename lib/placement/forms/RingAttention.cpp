//===- RingAttention.cpp - attention over a sharded sequence --------------===//
//
// Queries stay; blocks of keys and values go round the ring, and each rank attends to one block a
// step while the next is on its way. The results of blocks are merged by their logsumexp. In the
// backward the gradients of keys and values travel with them, and are home after a whole round.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/forms/RingAttention.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Attention.h"
#include "dialects/aten/ops/Comparison.h"
#include "lib/placement/forms/Forms.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

//===----------------------------------------------------------------------===//
// The ring
//===----------------------------------------------------------------------===//

Value AttentionRing::follows(int64_t step) {
  return b.compare<aten::LtScalarOp>(b.rankAlong(axes), b.scalar(step));
}

Value AttentionRing::maskOf(int64_t step) {
  // A mask of one column is that of every block.
  if (!mask || shapeOf(mask).back() == 1)
    return mask;
  Value first = b.mulScalar(b.rankBefore(step, axes), b.scalar(keys));
  return b.indexSelect(mask, rankOf(mask) - 1, b.add(b.arange(keys), first));
}

SmallVector<Value> AttentionRing::send(ArrayRef<Value> values) {
  SmallVector<Value> futures;
  for (Value value : values)
    futures.push_back(b.startShift(value, 1, axes));
  return futures;
}

void AttentionRing::receive(ArrayRef<Value> futures, MutableArrayRef<Value> values) {
  for (auto [value, future] : llvm::zip_equal(values, futures))
    value = b.wait(future);
}

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

/// Queries, keys, values and all that has their shapes are sharded in the sequence; a mask in its
/// rows. None if the sequences do not divide, or a causal mask has no diagonal of blocks.
template <typename OpTy>
static std::optional<AxisStrategy> shardSequence(OpTy op, bool isCausal, const Form *form,
                                                 MeshAxis axis) {
  int64_t queries = shapeOf(op.getQuery())[sequenceDim], keys = shapeOf(op.getKey())[sequenceDim];
  if (!dividesEvenly(queries, axis) || !dividesEvenly(keys, axis) ||
      (isCausal && (queries != keys || op.getAttnMask())))
    return std::nullopt;
  AxisStrategy strategy = replicatedStrategy(op, form);
  for (AxisPlacement &placement : strategy.operands)
    placement = AxisPlacement::shard(sequenceDim);
  for (AxisPlacement &placement : strategy.results)
    placement = AxisPlacement::shard(sequenceDim);
  if (std::optional<unsigned> at = operandNumber(op, "attn_mask")) {
    ArrayRef<int64_t> shape = shapeOf(op.getAttnMask());
    int64_t rows = int64_t(shape.size()) - 2;
    bool hasRows = rows >= 0 && shape[rows] != 1;
    strategy.operands[*at] = hasRows ? AxisPlacement::shard(rows) : AxisPlacement::replicate();
  }
  return strategy;
}

/// Attributes that blocks share with the whole.
template <typename OpTy>
static SmallVector<NamedAttribute> blockAttributes(LocalBuilder &b, OpTy op, bool isCausal) {
  SmallVector<NamedAttribute> attributes = {b.number("dropout_p", 0.0),
                                            b.boolean("is_causal", isCausal)};
  if (op.getScaleAttr())
    attributes.push_back(b.named("scale", op.getScaleAttr()));
  return attributes;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

namespace {

class RingAttentionForm : public Form {
public:
  StringRef name() const override { return "ring attention"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto attention = cast<aten::FlashAttentionForCpuOp>(op);
    bool isCausal = attention.getIsCausal().value_or(false);
    std::optional<AxisStrategy> strategy = shardSequence(attention, isCausal, this, axis);
    if (!strategy)
      return;
    strategy->bytes =
        allGatherBytes(bytesOf(attention.getKey()) + bytesOf(attention.getValue()), axis);
    strategies.push_back(std::move(*strategy));
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto attention = cast<aten::FlashAttentionForCpuOp>(op);
    LocalBuilder b(op, operands, form);
    Value query = operands[0], mask = operands.size() > 3 ? operands[3] : Value();
    Axes axes = b.axesOf(query, sequenceDim);
    AttentionRing ring(b, axes, attention.getIsCausal().value_or(false), mask,
                       shapeOf(operands[1])[sequenceDim]);
    Type lseType = dtypeOf(op->getResult(1));
    Value q = b.asVarying(query, axes), out, lse;
    SmallVector<Value, 2> block = {b.asVarying(operands[1], axes), b.asVarying(operands[2], axes)};
    for (int64_t step = 0; step < ring.steps(); ++step) {
      SmallVector<Value> next;
      if (!ring.isLast(step))
        next = ring.send(block);
      SmallVector<Value> inputs = {q, block[0], block[1]};
      Value maskPart = ring.maskOf(step);
      if (maskPart)
        inputs.push_back(maskPart);
      Operation *local = b.create<aten::FlashAttentionForCpuOp>(
          {RankedTensorType::get(shapeOf(query), dtypeOf(query)),
           RankedTensorType::get(shapeOf(query).drop_back(), lseType)},
          inputs, blockAttributes(b, attention, ring.isDiagonal(step)));
      Value blockOut = b.widened(local->getResult(0)), blockLse = local->getResult(1);
      if (ring.mayFollow(step))
        blockLse = b.minusInfinityWhere(ring.follows(step), blockLse);
      if (maskPart)
        blockLse = b.minusInfinityWhere(leavesNothing(b, maskPart), blockLse);
      if (step == 0) {
        out = blockOut;
        lse = blockLse;
      } else {
        merge(b, out, lse, blockOut, blockLse, mask != nullptr);
      }
      if (!ring.isLast(step))
        ring.receive(next, block);
    }
    out = b.asLike(b.toType(out, dtypeOf(query)), query);
    if (mask)
      lse = b.maskedFill(lse, isMinusInfinity(b, lse), b.scalar(0.0));
    // The placement of logsumexp is that of the queries: it has their dimensions but the last.
    return b.finish({out, b.asLike(lse, query)});
  }

private:
  static Value isMinusInfinity(LocalBuilder &b, Value value) {
    return b.compare<aten::EqScalarOp>(value, b.scalar(-std::numeric_limits<double>::infinity()));
  }

  /// Whether a mask's block takes all keys from a query: the kernel gives a logsumexp of 0 then.
  static Value leavesNothing(LocalBuilder &b, Value mask) {
    return b.squeeze(isMinusInfinity(b, b.amax(mask, rankOf(mask) - 1)), -1);
  }

  /// What attention to both has for results; logsumexp is -inf where there was nothing to attend
  /// to.
  static void merge(LocalBuilder &b, Value &out, Value &lse, Value blockOut, Value blockLse,
                    bool isMasked) {
    Value largest = b.make<aten::MaximumOp>(shapeOf(lse), dtypeOf(lse), {lse, blockLse});
    Value base = largest;
    if (isMasked)
      base = b.maskedFill(largest, isMinusInfinity(b, largest), b.scalar(0.0));
    Value weight = b.unary<aten::ExpOp>(b.sub(lse, base));
    Value blockWeight = b.unary<aten::ExpOp>(b.sub(blockLse, base));
    Value sum = b.add(weight, blockWeight);
    lse = b.add(base, b.unary<aten::LogOp>(sum));
    if (isMasked)
      sum = b.maskedFill(sum, b.compare<aten::EqScalarOp>(sum, b.scalar(0.0)), b.scalar(1.0));
    auto share = [&](Value part, Value of) { return b.mul(part, b.unsqueeze(b.div(of, sum), -1)); };
    out = b.add(share(out, weight), share(blockOut, blockWeight));
  }
};

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

class RingAttentionBackwardForm : public Form {
public:
  StringRef name() const override { return "gradient of ring attention"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<aten::FlashAttentionForCpuBackwardOp>(op);
    std::optional<AxisStrategy> strategy =
        shardSequence(backward, backward.getIsCausal(), this, axis);
    if (!strategy)
      return;
    int64_t bytes = bytesOf(backward.getKey()) + bytesOf(backward.getValue());
    // Gradients make the whole round.
    strategy->bytes = allGatherBytes(bytes, axis) + bytes;
    strategies.push_back(std::move(*strategy));
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto backward = cast<aten::FlashAttentionForCpuBackwardOp>(op);
    LocalBuilder b(op, operands, form);
    Value query = operands[1], key = operands[2], value = operands[3];
    Value mask = operands.size() > 6 ? operands[6] : Value();
    Axes axes = b.axesOf(query, sequenceDim);
    AttentionRing ring(b, axes, backward.getIsCausal(), mask, shapeOf(key)[sequenceDim]);
    auto varying = [&](Value operand) { return b.asVarying(operand, axes); };
    Value gradOut = varying(operands[0]), q = varying(query), out = varying(operands[4]);
    Value lse = varying(operands[5]), gradQuery;
    SmallVector<Value, 2> block = {varying(key), varying(value)}, gradients, onWay;
    for (int64_t step = 0; step < ring.steps(); ++step) {
      SmallVector<Value> next;
      if (!ring.isLast(step))
        next = ring.send(block);
      // Against an infinite logsumexp all probabilities are zero, and so is all that follows.
      Value blockLse = lse;
      if (ring.mayFollow(step))
        blockLse = b.maskedFill(lse, ring.follows(step),
                                b.scalar(std::numeric_limits<double>::infinity()));
      SmallVector<Value> inputs = {gradOut, q, block[0], block[1], out, blockLse};
      if (Value part = ring.maskOf(step))
        inputs.push_back(part);
      auto like = [](Value of) { return RankedTensorType::get(shapeOf(of), dtypeOf(of)); };
      Operation *local = b.create<aten::FlashAttentionForCpuBackwardOp>(
          {like(query), like(key), like(value)}, inputs,
          blockAttributes(b, backward, ring.isDiagonal(step)));
      SmallVector<Value, 3> terms;
      for (Value result : local->getResults())
        terms.push_back(b.widened(result));
      gradQuery = step == 0 ? terms[0] : b.add(gradQuery, terms[0]);
      if (step == 0) {
        gradients = {terms[1], terms[2]};
      } else {
        ring.receive(onWay, gradients);
        gradients = {b.add(gradients[0], terms[1]), b.add(gradients[1], terms[2])};
      }
      onWay = ring.send(gradients);
      if (!ring.isLast(step))
        ring.receive(next, block);
    }
    ring.receive(onWay, gradients);
    auto result = [&](Value gradient, Value of) {
      return b.asLike(b.toType(gradient, dtypeOf(of)), of);
    };
    return b.finish(
        {result(gradQuery, query), result(gradients[0], key), result(gradients[1], value)});
  }
};

} // namespace

void placement::addRingAttentionForms(FormTable &table) {
  static const RingAttentionForm forward;
  static const RingAttentionBackwardForm backward;
  table.add(aten::FlashAttentionForCpuOp::getOperationName(), &forward);
  table.add(aten::FlashAttentionForCpuBackwardOp::getOperationName(), &backward);
}
