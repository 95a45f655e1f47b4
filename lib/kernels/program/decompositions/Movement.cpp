//===- Movement.cpp - views, conversions, windows ----------------------------------===//

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Part.h"
#include "dialects/aten/ops/Random.h"
#include "dialects/aten/ops/View.h"
#include "lib/kernels/program/ProgramBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

/// Another shape, or another order of the rows: how each tensor lies over them says which.
static LogicalResult view(OpDecomposer &d) {
  return d.result(d.operand(0));
}

/// A conversion to a narrower float rounds, even where the value goes on in registers: that is what
/// it is for.
static LogicalResult toCopy(OpDecomposer &d) {
  NodeId value = d.operand(0, d.type());
  Type from = cast<RankedTensorType>(d.op->getOperand(0).getType()).getElementType();
  Type to = cast<RankedTensorType>(d.op->getResult(0).getType()).getElementType();
  if (from != to && to.isBF16())
    value = d.b.map(Function::RoundBF16, {value});
  if (from != to && to.isF16())
    value = d.b.map(Function::RoundF16, {value});
  return d.result(value);
}

/// Where a window of the operand's columns begins.
static int64_t startOf(OpDecomposer &d, int64_t columns) {
  auto start = static_cast<int64_t>(d.number("start"));
  return std::clamp<int64_t>(start < 0 ? start + columns : start, 0, columns);
}

static LogicalResult slice(OpDecomposer &d) {
  int64_t columns = d.access(d.op->getResult(0)).columns;
  return d.result(d.b.slice(d.operand(0), startOf(d, d.columns(0)), columns));
}

static LogicalResult concat(OpDecomposer &d) {
  SmallVector<NodeId> values;
  SmallVector<int64_t> columns;
  for (unsigned i = 0; i < d.op->getNumOperands(); ++i) {
    values.push_back(d.operand(i, d.type()));
    columns.push_back(d.columns(i));
  }
  return d.result(d.b.concat(values, columns));
}

/// Zeros on both sides of the window.
static LogicalResult sliceBackward(OpDecomposer &d) {
  int64_t all = d.access(d.op->getResult(0)).columns, window = d.columns(0);
  int64_t start = startOf(d, all);
  NodeId zero = d.b.constant(d.type(), 0);
  SmallVector<NodeId> values;
  SmallVector<int64_t> columns;
  auto add = [&](NodeId value, int64_t width) {
    if (width == 0)
      return;
    values.push_back(value);
    columns.push_back(width);
  };
  add(zero, start);
  add(d.operand(0, d.type()), window);
  add(zero, all - start - window);
  return d.result(values.size() == 1 ? values.front() : d.b.concat(values, columns));
}

static LogicalResult dropoutBackward(OpDecomposer &d) {
  NodeId gradient = d.operand(0, d.type());
  return d.result(d.b.mul(gradient, d.b.mul(d.operand(1, d.type()), d.number("scale", 1))));
}

void cleave::kernels::addMovement(DecompositionTable &table) {
  table.add<aten::AliasOp, aten::DetachOp, aten::ViewOp, aten::UnsqueezeOp, aten::UnsafeViewOp,
            aten::SqueezeOp, aten::SqueezeDimOp, aten::SqueezeDimsOp, aten::ExpandOp,
            aten::TransposeOp, aten::PermuteOp, aten::CloneOp>(view);
  table.add<aten::ToCopyOp>(toCopy);
  table.add<aten::SliceOp>(slice);
  table.add<aten::CatOp>(concat);
  table.add<aten::SliceBackwardOp>(sliceBackward);
  table.add<aten::NativeDropoutBackwardOp>(dropoutBackward);
}
