//===- Normalization.cpp - layer norm and its gradients ----------------------===//

#include "dialects/aten/ops/Normalization.h"
#include "lib/kernels/program/ProgramBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

static LogicalResult layerNorm(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  ComputeType type = d.type(0);
  int64_t columns = d.columns();
  double count = double(columns);
  NodeId x = d.operand(0, type);
  NodeId mean = b.mul(b.sum(x, columns), 1 / count);
  NodeId centered = b.sub(x, mean);
  // In two walks over the row: the variance loses no digits where the mean is large.
  NodeId variance = b.mul(b.sum(b.mul(centered, centered), columns), 1 / count);
  NodeId rstd = b.div(1.0, b.map(Function::Sqrt, {b.add(variance, d.number("eps"))}));
  NodeId y = b.mul(centered, rstd);
  if (std::optional<NodeId> weight = d.argument("weight"))
    y = b.mul(y, b.convert(*weight, type));
  if (std::optional<NodeId> bias = d.argument("bias"))
    y = b.add(y, b.convert(*bias, type));
  d.set(0, y);
  d.set(1, mean);
  d.set(2, rstd);
  return success();
}

/// With x' the normalized row and g' = g * weight:
///   d input = rstd * (g' - mean(g') - x' * mean(g' * x')), d weight = sum over rows of g * x',
///   d bias = sum over rows of g.
static LogicalResult layerNormBackward(OpDecomposer &d) {
  ProgramBuilder &b = d.b;
  int64_t columns = d.columns();
  double count = double(columns);
  ComputeType type = b.typeOf(*d.argument("input"));
  NodeId gradient = b.convert(*d.argument("grad_out"), type), x = *d.argument("input");
  NodeId mean = b.convert(*d.argument("mean"), type), rstd = b.convert(*d.argument("rstd"), type);
  NodeId normalized = b.mul(b.sub(x, mean), rstd);
  if (d.wants(0)) {
    NodeId scaled = gradient;
    if (std::optional<NodeId> weight = d.argument("weight"))
      scaled = b.mul(gradient, b.convert(*weight, type));
    NodeId first = b.mul(b.sum(scaled, columns), 1 / count);
    NodeId second = b.mul(b.sum(b.mul(scaled, normalized), columns), 1 / count);
    d.set(0, b.mul(b.sub(b.sub(scaled, first), b.mul(normalized, second)), rstd));
  }
  if (d.wants(1))
    d.set(1, b.reduceRows(RowReduction::Sum, b.mul(gradient, normalized)));
  if (d.wants(2))
    d.set(2, b.reduceRows(RowReduction::Sum, gradient));
  return success();
}

void cleave::kernels::addNormalization(DecompositionTable &table) {
  table.add<aten::NativeLayerNormOp>(layerNorm);
  table.add<aten::NativeLayerNormBackwardOp>(layerNormBackward);
}
