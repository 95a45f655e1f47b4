//===- Movement.cpp - views and conversions ----------------------------------===//

#include "lib/codegen/ProgramBuilder.h"

using namespace mlir;
using namespace cleave::codegen;

/// Another shape of the same matrix.
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

void cleave::codegen::addMovement(DecompositionTable &table) {
  for (StringRef name : {"alias", "detach", "view", "unsqueeze", "_unsafe_view", "squeeze",
                         "squeeze_dim", "squeeze_dims", "expand"})
    table[("aten." + name).str()] = view;
  table["aten._to_copy"] = toCopy;
}
