//===- Losses.cpp - losses and their gradients -------------------------------===//

#include "dialects/aten/ops/Loss.h"
#include "lib/kernels/program/ProgramBuilder.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

namespace {
/// How a loss is reduced (at::Reduction).
enum : int64_t { kNone = 0, kMean = 1, kSum = 2 };

/// The class of each row: whether it counts, whether there is such a class, and its weight.
struct Target {
  NodeId index, counts, exists;
  std::optional<NodeId> weight;
};
} // namespace

static Target findTarget(OpDecomposer &d, int64_t classes, ComputeType type) {
  ProgramBuilder &b = d.b;
  NodeId index = b.convert(*d.argument("target"), ComputeType::I64);
  auto number = [&](int64_t value) { return b.integer(ComputeType::I64, value); };
  Target target;
  target.counts =
      b.map(Function::NotEqual, {index, number(int64_t(d.number("ignore_index", -100)))});
  target.exists = b.map(Function::And, {b.map(Function::GreaterEqual, {index, number(0)}),
                                        b.map(Function::Less, {index, number(classes)})});
  target.index = b.select(target.exists, index, number(0));
  if (std::optional<NodeId> weights = d.argument("weight"))
    target.weight = b.convert(b.gather(*weights, target.index), type);
  return target;
}

/// A class that does not exist makes the loss NaN; PyTorch refuses it.
static LogicalResult nllForward(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  ComputeType type = d.type();
  int64_t reduction = int64_t(d.number("reduction"));
  NodeId scores = d.operand(0, type), zero = b.constant(type, 0);
  Target target = findTarget(d, d.columns(0), type);
  NodeId weight = target.weight.value_or(b.constant(type, 1));
  NodeId term = b.neg(b.mul(b.gather(scores, target.index), weight));
  NodeId nan = b.constant(type, std::numeric_limits<double>::quiet_NaN());
  term = b.select(target.counts, b.select(target.exists, term, nan), zero);
  if (reduction == kNone)
    return d.result(term);
  NodeId sum = b.reduceRows(RowReduction::Sum, term);
  NodeId total = b.reduceRows(RowReduction::Sum, b.select(target.counts, weight, zero));
  d.set(0, reduction == kMean ? b.div(sum, total) : sum);
  d.set(1, total);
  return success();
}

static LogicalResult nllBackward(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  ComputeType type = d.type();
  NodeId gradient = b.convert(*d.argument("grad_output"), type), zero = b.constant(type, 0);
  int64_t classes = d.columns(1);
  Target target = findTarget(d, classes, type);
  NodeId factor = b.neg(gradient);
  if (target.weight)
    factor = b.mul(factor, *target.weight);
  if (int64_t(d.number("reduction")) == kMean)
    factor = b.div(factor, b.convert(*d.argument("total_weight"), type));
  NodeId isTarget = b.map(Function::Equal, {b.columnIndex(classes),
                                            b.convert(*d.argument("target"), ComputeType::I64)});
  return d.result(b.select(isTarget, b.select(target.counts, factor, zero), zero));
}

static int64_t reductionOf(OpDecomposer &d) {
  return int64_t(d.number("reduction", kMean));
}

static double elementsOf(Value value) {
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

static LogicalResult mseLoss(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  NodeId distance = b.sub(d.operand(0, d.type()), d.operand(1, d.type()));
  NodeId value = b.mul(distance, distance);
  if (reductionOf(d) == kNone)
    return d.result(value);
  const RowLayout &from = d.access(d.op->getOperand(0)), &to = d.access(d.op->getResult(0));
  if (from.hasColumns())
    value = b.reduceColumns(RowReduction::Sum, value, from.columns);
  if (to.isTotal)
    value = b.reduceRows(RowReduction::Sum, value);
  if (reductionOf(d) == kMean)
    value = b.div(value, b.constant(d.type(), elementsOf(d.op->getOperand(0))));
  return d.result(value);
}

static LogicalResult mseLossBackward(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  ComputeType type = d.type();
  NodeId distance =
      b.sub(b.convert(*d.argument("self"), type), b.convert(*d.argument("target"), type));
  double factor = reductionOf(d) == kMean ? 2 / elementsOf(d.op->getResult(0)) : 2;
  return d.result(b.mul(b.mul(distance, factor), b.convert(*d.argument("grad_output"), type)));
}

void cleave::kernels::addLosses(DecompositionTable &table) {
  table.add<aten::NllLossForwardOp>(nllForward);
  table.add<aten::NllLossBackwardOp>(nllBackward);
  table.add<aten::MseLossOp>(mseLoss);
  table.add<aten::MseLossBackwardOp>(mseLossBackward);
}
