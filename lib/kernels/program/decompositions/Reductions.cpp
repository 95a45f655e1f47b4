//===- Reductions.cpp - sums, means and largest elements --------------------===//

#include "dialects/aten/ops/Reduction.h"
#include "lib/kernels/program/ProgramBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

/// Over the columns, over the rows, or both, as operand and result say.
static NodeId reduce(OpDecomposer &d, RowReduction reduction, NodeId value) {
  const RowLayout &from = d.access(d.op->getOperand(0)), &to = d.access(d.op->getResult(0));
  if (from.hasColumns() && !to.hasColumns())
    value = d.b.reduceColumns(reduction, value, from.columns);
  if (to.isTotal)
    value = d.b.reduceRows(reduction, value);
  return value;
}

static LogicalResult sum(OpDecomposer &d) {
  return d.result(reduce(d, RowReduction::Sum, d.operand(0, d.type())));
}

static LogicalResult mean(OpDecomposer &d) {
  auto count = [](Type type) { return double(cast<RankedTensorType>(type).getNumElements()); };
  NodeId total = reduce(d, RowReduction::Sum, d.operand(0, d.type()));
  double terms = count(d.op->getOperand(0).getType()) / count(d.op->getResult(0).getType());
  return d.result(d.b.div(total, d.b.constant(d.type(), terms)));
}

static LogicalResult largest(OpDecomposer &d) {
  return d.result(reduce(d, RowReduction::Max, d.operand(0, d.type())));
}

void cleave::kernels::addReductions(DecompositionTable &table) {
  table.add<aten::SumOp>(sum);
  table.add<aten::SumDimIntListOp>(sum);
  table.add<aten::MeanOp>(mean);
  table.add<aten::MeanDimOp>(mean);
  table.add<aten::AmaxOp>(largest);
}
