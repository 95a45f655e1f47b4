//===- Softmax.cpp - softmax, its logarithm, and their gradients ------------===//

#include "dialects/aten/ops/Softmax.h"
#include "lib/kernels/program/ProgramBuilder.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

/// The distance from the largest element of the row. A NaN makes the row's sum one, so that the
/// maximum need not see it.
static NodeId belowLargest(OpDecomposer &d, NodeId x) {
  return d.b.sub(x, d.b.reduceColumns(RowReduction::MaxNumbers, x, d.columns()));
}

static LogicalResult softmax(OpDecomposer &d) {
  NodeId e = d.b.exp(belowLargest(d, d.operand(0, d.type())));
  return d.result(d.b.mul(e, d.b.div(1.0, d.b.sum(e, d.columns()))));
}

/// Rows of nothing but -inf give zeros.
static LogicalResult safeSoftmax(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  NodeId x = d.operand(0, d.type());
  NodeId largest = b.reduceColumns(RowReduction::Max, x, d.columns());
  NodeId e = b.exp(b.sub(x, largest));
  NodeId y = b.mul(e, b.div(1.0, b.sum(e, d.columns())));
  NodeId nothing = b.constant(d.type(), -std::numeric_limits<double>::infinity());
  return d.result(b.select(b.map(Function::Equal, {largest, nothing}), b.constant(d.type(), 0), y));
}

static LogicalResult logSoftmax(OpDecomposer &d) {
  NodeId below = belowLargest(d, d.operand(0, d.type()));
  return d.result(d.b.sub(below, d.b.map(Function::Log, {d.b.sum(d.b.exp(below), d.columns())})));
}

static LogicalResult softmaxBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0), y = d.operand(1);
  return d.result(d.b.mul(y, d.b.sub(gradient, d.b.sum(d.b.mul(gradient, y), d.columns()))));
}

static LogicalResult logSoftmaxBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0), y = d.operand(1);
  return d.result(d.b.sub(gradient, d.b.mul(d.b.exp(y), d.b.sum(gradient, d.columns()))));
}

void cleave::kernels::addSoftmax(DecompositionTable &table) {
  table.add<aten::SoftmaxOp>(softmax);
  table.add<aten::SafeSoftmaxOp>(safeSoftmax);
  table.add<aten::LogSoftmaxOp>(logSoftmax);
  table.add<aten::SoftmaxBackwardDataOp>(softmaxBackward);
  table.add<aten::LogSoftmaxBackwardDataOp>(logSoftmaxBackward);
}
